"""When power is read, decided without a database: pace, spread, the slow lane, and the cap on logins."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from farrier.config import NodeConfig
from farrier.handlers.node import power
from farrier.handlers.node.moves import Policy
from farrier.model.actions import Action
from farrier.model.bmc import LOGIN_CAP, LOGIN_WINDOW, BmcError, BmcFailure, PowerState
from farrier.model.management import Management as M
from farrier.model.node import Node, Pause
from farrier.model.outcome import DoNothing, Step, Wait
from farrier.model.status import NodeStatus
from farrier.model.workflow import WorkflowStatus as W
from tests.support.nodes import HANDLER, MINUTE, NOW, SECOND, Secrets, answers, decide, intent, moved, onboarding
from tests.support.power import READING, World, gaps, manageable

INTERVAL = NodeConfig().power_sync_interval
HOUR = timedelta(hours=1)
REFUSED = BmcError(BmcFailure.AUTH, "401", credential_version="v1")


# --- when it is read


def test_power_is_read_once_in_each_interval_by_one_request() -> None:
    world = World()
    after = world.live(manageable(), until=HOUR)
    assert {call for call, _ in world.log} == {"read"}
    assert 60 <= len(world.log) <= 61
    assert set(gaps(world.times())) == {60.0}
    assert after.bmc.power_at == world.times()[-1]


def test_a_fleet_that_was_verified_in_one_moment_does_not_march_in_step() -> None:
    due = sorted(power.next_read(manageable(id=id_), Policy()) for id_ in range(1, 1001))
    assert all(INTERVAL / 2 <= at - NOW <= 1.5 * INTERVAL for at in due)
    assert max(gaps(due)) < 0.5
    busiest = max(sum(at <= other < at + SECOND for other in due) for at in due)
    assert busiest <= 20, "a thousand reads a minute are seventeen a second"


@pytest.mark.parametrize(
    "node",
    [
        pytest.param(manageable(paused=Pause("fire drill", NOW)), id="paused"),
        pytest.param(
            manageable(deleting=True, status=NodeStatus.ENROLLING, workflow=onboarding(W.PENDING, mode=None)),
            id="deleting",
        ),
        *(
            pytest.param(replace(manageable(), management=management), id=str(management))
            for management in (M.UNMANAGED, M.ERROR, M.ADOPT_FAILED)
        ),
        pytest.param(replace(manageable(), management=M.ENROLL, auto_manage=False), id="enroll"),
    ],
)
def test_no_bmc_is_read_that_is_not_ours_to_read(node: Node) -> None:
    world = World()
    world.live(node, until=HOUR)
    assert world.log == []


def test_between_reads_nothing_is_waited_for() -> None:
    decision = decide(manageable())
    assert isinstance(decision, DoNothing)
    assert decision.look_again is not None and timedelta(0) < decision.look_again <= 1.5 * INTERVAL


def test_a_read_that_tells_nothing_new_is_quiet_and_any_other_is_told() -> None:
    due = NOW + 2 * MINUTE
    same = World().act(decide(manageable(), due))
    assert (same.quiet, same.look_again > timedelta(0)) == (True, True)
    for before, answer in (
        ({"power": PowerState.OFF}, READING),
        ({"sync_failure": BmcFailure.TIMEOUT, "sync_failures": 2}, READING),
        ({"power_at": NOW - HOUR}, READING),
        ({}, BmcError(BmcFailure.TIMEOUT, "no answer")),
    ):
        told = World(answer).act(decide(manageable(before), due))
        assert (told.quiet, told.look_again) == (False, timedelta(0)), before


# --- a read that fails


@pytest.mark.parametrize("failure", sorted(set(BmcFailure) - {BmcFailure.AUTH, BmcFailure.INCOMPLETE}))
def test_a_bmc_that_cannot_be_read_is_tried_ever_more_rarely_and_its_facts_grow_old(failure: BmcFailure) -> None:
    world = World(BmcError(failure, "it said no"))
    after = world.live(manageable(), until=HOUR)
    expected = [30, 60, 120, 240, 300, 300, 300]
    assert all(first <= gap <= 1.1 * first for first, gap in zip(expected, gaps(world.times("read")), strict=False))
    assert len(world.times("read")) >= 12
    assert (after.management, after.status, after.bmc.power, after.bmc.power_at) == (
        M.MANAGEABLE,
        NodeStatus.RETIRED,
        PowerState.ON,
        NOW,
    )
    assert (after.bmc.sync_failure, after.bmc.sync_error, after.bmc.last_error) == (failure, "it said no", None)
    assert after.bmc.tries == ()
    wait = decide(after, world.now)
    assert isinstance(wait, Wait) and wait.reason == f"power cannot be read ({failure}): it said no"


def test_a_bmc_that_asks_for_patience_gets_it() -> None:
    world = World(BmcError(BmcFailure.UNREACHABLE, "busy", retry_after=10 * MINUTE))
    world.live(manageable(), until=HOUR)
    assert all(10 * MINUTE <= timedelta(seconds=gap) <= 11 * MINUTE for gap in gaps(world.times()))
    world = World(BmcError(BmcFailure.UNREACHABLE, "busy", retry_after=timedelta(days=9)))
    world.live(manageable(), until=2 * HOUR)
    assert len(world.log) >= 3, "but not for ever"


def test_the_first_read_that_succeeds_ends_it() -> None:
    world = World(BmcError(BmcFailure.UNREACHABLE, "no route"))
    failing = world.live(manageable(), until=HOUR)
    well = World()
    well.now = world.now
    after = well.live(failing, until=10 * MINUTE)
    assert (after.bmc.sync_failure, after.bmc.sync_error, after.bmc.sync_failures, after.bmc.next_sync_at) == (
        None,
        None,
        0,
        None,
    )
    assert gaps(well.times())[-2:] == [60.0, 60.0]


def test_another_machine_behind_the_bmc_is_seen_and_believed_in_nothing() -> None:
    world = World(replace(READING, serial="S2", power=PowerState.OFF))
    after = world.live(manageable(), until=3 * MINUTE)
    assert (after.bmc.sync_failure, after.bmc.serial, after.bmc.power, after.bmc.power_at) == (
        BmcFailure.IDENTITY_MISMATCH,
        "S1",
        PowerState.ON,
        NOW,
    )
    asked = decide(replace(after, intents=(intent(Action.SET_POWER, power="off"),)), world.now)
    assert answers(asked)[0][0] == "rejected" and "another machine" in answers(asked)[0][1]


@pytest.mark.parametrize(
    ("temporary", "failure"), [(False, BmcFailure.INCOMPLETE), (True, BmcFailure.UNREACHABLE)], ids=["gone", "for now"]
)
def test_a_secret_that_cannot_be_had_dials_nobody_and_is_told_as_what_it_is(
    temporary: bool, failure: BmcFailure
) -> None:
    world = World()
    world.secrets = Secrets(None, temporary=temporary)
    after = world.live(manageable(), until=3 * MINUTE)
    assert (after.bmc.sync_failure, after.bmc.tries, world.log) == (failure, (), [])


# --- logins


def busiest(logins: list[datetime]) -> int:
    return max(sum(at <= other < at + LOGIN_WINDOW for other in logins) for at in logins)


def test_reads_that_are_refused_keep_to_the_login_cap() -> None:
    world = World(REFUSED)
    world.live(manageable(), until=2 * HOUR)
    assert busiest(world.times()) <= LOGIN_CAP
    assert len(world.log) >= 20, "and it goes on"


def test_a_read_whose_end_nobody_saw_counts_as_a_refused_login() -> None:
    world = World()
    began: list[datetime] = []

    def cut(step: Step[Any, Any, Any]) -> bool:
        began.append(world.now)
        return True

    world.live(manageable(), until=HOUR, cut=cut)
    assert busiest(began) == LOGIN_CAP
    assert len(began) >= 30
    wait = decide(manageable({"tries": (NOW,) * LOGIN_CAP}), NOW + 2 * MINUTE)
    assert isinstance(wait, Wait) and "failed logins" in wait.reason and wait.look_again == 3 * MINUTE


def test_after_a_crash_a_read_that_was_due_counts_before_anything_is_dialled() -> None:
    node = manageable()
    assert isinstance(HANDLER.recover(node, NOW + SECOND, NOW + SECOND), DoNothing), "none was due"
    due = NOW + 2 * MINUTE
    assert isinstance(HANDLER.recover(node, due, NOW + SECOND), Step), "none was due when the last step can have begun"
    counted = moved(HANDLER.recover(node, due, due))
    assert (counted.bmc.tries, counted.bmc.trying) == ((due,), None)
    capped = manageable({"tries": (due,) * LOGIN_CAP})
    assert isinstance(HANDLER.recover(capped, due, due), Wait)


def test_where_others_log_in_a_read_counts_before_it_dials_and_once() -> None:
    shared = replace(manageable(), bmc_address="https://10.0.0.1/redfish/v1/Systems/1")
    due = NOW + 2 * INTERVAL
    counted = moved(decide(shared, due))
    assert (counted.bmc.tries, counted.bmc.trying) == ((due,), due)
    step = decide(counted, due)
    assert isinstance(step, Step) and step.if_cut is not None
    for unseen in (step.if_cut, HANDLER.recover(counted, due, due)):
        spent = moved(unseen).bmc
        assert (spent.tries, spent.trying) == ((due,), None)
    world = World()
    after = world.live(shared, until=10 * MINUTE)
    assert (after.bmc.tries, after.bmc.trying) == ((), None)
    assert 9 <= len(world.log) <= 10


def test_a_client_that_dialled_nobody_counts_for_nothing() -> None:
    world = World(BmcError(BmcFailure.AUTH, "too many logins", dialled=False, retry_after=MINUTE))
    after = world.live(manageable(), until=3 * MINUTE)
    assert (after.bmc.sync_failure, after.bmc.tries) == (BmcFailure.AUTH, ())


def test_settings_in_which_no_read_would_be_fresh_are_refused() -> None:
    with pytest.raises(ValueError, match="observation_ttl"):
        NodeConfig(power_sync_interval=10 * MINUTE)
