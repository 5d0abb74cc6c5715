"""Reads of power, without a database: interval, spread, the longer interval after failures, and the cap on logins."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from farrier.config import NodeConfig
from farrier.handlers.node.changes import Policy, has_fresh_power
from farrier.handlers.node.rules import power
from farrier.model.intents.actions import Action
from farrier.model.loop.outcome import DoNothing, Step, Wait
from farrier.model.machine.bmc import LOGIN_CAP, LOGIN_WINDOW, BmcError, BmcFailure, PowerState
from farrier.model.node.layers import Management as M
from farrier.model.node.layers import NodeStatus
from farrier.model.node.layers import WorkflowStatus as W
from farrier.model.node.snapshot import Node, OtherLogin, Pause
from tests.support.nodes import HANDLER, MINUTE, NOW, SECOND, Secrets, answers, decide, intent, moved, onboarding
from tests.support.power import READING, World, gaps, manageable

INTERVAL = NodeConfig().power_sync_interval
HOUR = timedelta(hours=1)
# The fields that a read records.
KNOWN: dict[str, Any] = {"tried_version": "v1"}
REFUSED = BmcError(BmcFailure.AUTH, "401", credential_version="v1")


# --- when power is read


def test_power_is_read_once_in_each_interval_by_one_request() -> None:
    world = World()
    after = world.live(manageable(), until=HOUR)
    assert {call for call, _ in world.log} == {"read"}
    assert 60 <= len(world.log) <= 61
    assert set(gaps(world.times())) == {60.0}
    assert after.bmc.power_at == world.times()[-1]


def test_power_reads_of_nodes_verified_at_the_same_time_are_spread_out() -> None:
    due = sorted(power.next_read(manageable(id=id_), Policy()) for id_ in range(1, 1001))
    assert all(INTERVAL / 2 <= at - NOW <= 1.5 * INTERVAL for at in due)
    assert max(gaps(due)) <= 0.5 and len(set(due)) <= 121, "the nodes of one moment are read together"
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
def test_the_bmc_of_a_node_that_is_not_manageable_or_is_paused_or_deleted_is_not_read(node: Node) -> None:
    world = World()
    world.live(node, until=HOUR)
    assert world.log == []


def test_between_reads_the_node_is_idle_until_the_next_read() -> None:
    decision = decide(manageable())
    assert isinstance(decision, DoNothing)
    assert decision.requeue_after is not None and timedelta(0) < decision.requeue_after <= 1.5 * INTERVAL


def test_a_read_without_news_is_quiet_and_any_other_read_is_reported() -> None:
    due = NOW + 2 * MINUTE
    same = World().act(decide(manageable(), due))
    assert (same.quiet, same.requeue_after > timedelta(0)) == (True, True)
    for before, answer in (
        ({"power": PowerState.OFF}, READING),
        ({"sync_failure": BmcFailure.TIMEOUT, "sync_failures": 2}, READING),
        ({"power_at": NOW - HOUR}, READING),
        ({}, BmcError(BmcFailure.TIMEOUT, "no answer")),
    ):
        reported = World(answer).act(decide(manageable(before), due))
        assert (reported.quiet, reported.requeue_after) == (False, timedelta(0)), before


# --- what a read confirms


def confirmed_since(node: Node, after: timedelta) -> Node:
    """The node in memory after a read that confirmed it."""
    step = World().act(decide(node, NOW + after))
    assert step.confirms
    return HANDLER.confirmed(node, step.to, NOW + after)


def test_a_read_that_finds_the_recorded_state_changes_only_the_time_of_confirmation() -> None:
    node = manageable(KNOWN)
    read = World().act(decide(node, NOW + 2 * MINUTE))
    assert (read.confirms, read.quiet) == (True, True)
    assert read.to == replace(node, bmc=replace(node.bmc, power_at=NOW + 2 * MINUTE), stored_power_at=NOW)


@pytest.mark.parametrize(
    "before",
    [
        {"health": "Warning"},
        {"system_path": "/redfish/v1/Systems/2"},
        {"tried_version": "v0"},
        {"tries": (NOW,), "trying": NOW},
        {"power": PowerState.OFF},
        {"sync_failure": BmcFailure.TIMEOUT, "sync_failures": 2},
        {"power_at": NOW - HOUR},
        {"desired_power": PowerState.ON, "enforce_error": "unsupported"},
    ],
    ids=", ".join,
)
def test_a_read_that_finds_a_difference_is_stored(before: dict[str, Any]) -> None:
    node = manageable(KNOWN | before)
    assert not World().act(decide(node, NOW + 2 * MINUTE)).confirms


def test_nodes_store_their_confirmed_reads_once_an_interval_at_spread_times() -> None:
    stores = sorted(at for id_ in range(1, 201) for at in _stores(manageable(KNOWN, id=id_), until=HOUR))
    assert all(5 <= len(_stores(manageable(KNOWN, id=id_), until=HOUR)) <= 7 for id_ in (1, 2, 3))
    in_each = [sum(NOW + n * MINUTE <= at < NOW + (n + 1) * MINUTE for at in stores) for n in range(2, 60)]
    assert min(in_each) >= 15 and max(in_each) <= 25, "200 nodes store once in ten minutes each"
    halves = [at for at in stores if at.second < 30]
    assert 0.4 <= len(halves) / len(stores) <= 0.6


def _stores(node: Node, *, until: timedelta) -> list[datetime]:
    """The times at which reads of a node store what they confirm."""
    world, stored, stores = World(), node, []
    while world.now < NOW + until:
        world.now = power.next_read(node, Policy())
        read = world.act(decide(node, world.now))
        if not read.confirms:
            stored = replace(read.to, stored_power_at=None)
            stores.append(world.now)
        node = HANDLER.confirmed(stored, read.to, world.now)
    return stores


def test_no_read_stays_in_memory_if_each_read_is_stored() -> None:
    policy = Policy(confirmed_every=SECOND)
    decision = power.tend(manageable(KNOWN), NOW + 2 * MINUTE, policy)
    assert decision is not None
    read = World().act(decision)
    assert (read.confirms, read.quiet) == (False, True)


def test_a_confirmed_read_is_applied_to_each_load_and_no_second_read_is_made() -> None:
    node = manageable(KNOWN)
    seen = confirmed_since(node, 2 * MINUTE)
    assert isinstance(decide(node, NOW + 2 * MINUTE + SECOND), Step)
    assert isinstance(decide(seen, NOW + 2 * MINUTE + SECOND), DoNothing)


@pytest.mark.parametrize(
    "stored",
    [
        manageable(KNOWN | {"power": PowerState.OFF}),
        manageable(KNOWN | {"power_at": NOW + HOUR}),
        manageable(KNOWN | {"serial": "S2"}),
        manageable(KNOWN | {"tries": (NOW,)}),
        replace(manageable(KNOWN), bmc_address="https://10.0.0.9"),
        replace(manageable(KNOWN), bmc_credential="env:OTHER"),
        replace(manageable(KNOWN), management=M.VERIFYING),
    ],
    ids=["power", "stored since", "serial", "logins", "address", "credential", "management"],
)
def test_a_confirmed_read_of_another_stored_state_is_dropped(stored: Node) -> None:
    remembered = World().act(decide(manageable(KNOWN), NOW + 2 * MINUTE)).to
    assert HANDLER.confirmed(stored, remembered, NOW + 3 * MINUTE) is stored


def test_a_confirmed_read_in_the_future_is_dropped_after_the_clock_was_set_back() -> None:
    node = manageable(KNOWN)
    remembered = World().act(decide(node, NOW + HOUR / 10)).to
    assert HANDLER.confirmed(node, remembered, NOW + MINUTE) is node


def test_logins_of_other_nodes_at_the_bmc_do_not_drop_a_confirmed_read() -> None:
    node = manageable(KNOWN)
    remembered = World().act(decide(node, NOW + 2 * MINUTE)).to
    others = (OtherLogin(at=NOW + MINUTE),)
    seen = HANDLER.confirmed(replace(node, bmc=replace(node.bmc, others=others)), remembered, NOW + 3 * MINUTE)
    assert (seen.bmc.power_at, seen.bmc.others, seen.stored_power_at) == (NOW + 2 * MINUTE, others, NOW)


def test_a_read_that_fails_stores_the_time_of_the_last_confirmation() -> None:
    seen = confirmed_since(manageable(KNOWN), 2 * MINUTE)
    failed = World(BmcError(BmcFailure.TIMEOUT, "no answer")).act(decide(seen, NOW + 4 * MINUTE))
    assert (failed.to.bmc.sync_failure, failed.to.bmc.power_at) == (BmcFailure.TIMEOUT, NOW + 2 * MINUTE)


@pytest.mark.parametrize(
    ("fields", "minutes"),
    [
        ({}, 15),
        ({"bmc": {"sync_failure": BmcFailure.TIMEOUT}}, 5),
        ({"paused": Pause("fire drill", NOW)}, 5),
        ({"management": M.VERIFYING}, 5),
        ({"deleting": True}, 5),
    ],
    ids=["well", "failing", "paused", "not manageable", "being deleted"],
)
def test_power_stays_fresh_for_longer_only_if_it_is_read_without_failures(fields: dict[str, Any], minutes: int) -> None:
    fields = dict(fields)
    node = replace(manageable(KNOWN | fields.pop("bmc", {})), **fields)
    assert has_fresh_power(node, NOW + minutes * MINUTE, Policy())
    assert not has_fresh_power(node, NOW + minutes * MINUTE + SECOND, Policy())


def test_after_a_takeover_the_stored_power_is_fresh_but_read_before_it_is_enforced() -> None:
    node = manageable(KNOWN | {"power": PowerState.OFF, "desired_power": PowerState.ON})
    later = NOW + 11 * MINUTE
    assert has_fresh_power(node, later, Policy())
    step = decide(node, later)
    assert isinstance(step, Step) and step.name == "read_power"
    read = World().act(step)
    assert read.to.bmc.power is PowerState.ON and read.to.bmc.switching is None


# --- a read that fails


@pytest.mark.parametrize("failure", sorted(set(BmcFailure) - {BmcFailure.AUTH, BmcFailure.INCOMPLETE}))
def test_an_unreadable_bmc_is_read_with_a_growing_backoff_and_keeps_its_last_state(failure: BmcFailure) -> None:
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


def test_the_retry_after_of_a_bmc_is_respected_up_to_a_limit() -> None:
    world = World(BmcError(BmcFailure.UNREACHABLE, "busy", retry_after=10 * MINUTE))
    world.live(manageable(), until=HOUR)
    assert all(10 * MINUTE <= timedelta(seconds=gap) <= 11 * MINUTE for gap in gaps(world.times()))
    world = World(BmcError(BmcFailure.UNREACHABLE, "busy", retry_after=timedelta(days=9)))
    world.live(manageable(), until=2 * HOUR)
    assert len(world.log) >= 3, "the requested pause has an upper limit"


def test_the_first_successful_read_ends_the_backoff() -> None:
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


def test_an_unknown_power_is_a_failed_read_after_which_the_last_known_power_remains() -> None:
    world = World(replace(READING, power=PowerState.UNKNOWN))
    after = world.live(manageable(), until=3 * MINUTE)
    assert (after.bmc.sync_failure, after.bmc.power, after.bmc.power_at) == (BmcFailure.PROTOCOL, PowerState.ON, NOW)


def test_a_read_of_another_machine_behind_the_bmc_is_an_identity_mismatch() -> None:
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
def test_a_missing_secret_is_recorded_by_its_cause_without_a_connection(temporary: bool, failure: BmcFailure) -> None:
    world = World()
    world.secrets = Secrets(None, temporary=temporary)
    after = world.live(manageable(), until=3 * MINUTE)
    assert (after.bmc.sync_failure, after.bmc.tries, world.log) == (failure, (), [])


# --- logins


def busiest(logins: list[datetime]) -> int:
    return max(sum(at <= other < at + LOGIN_WINDOW for other in logins) for at in logins)


def test_reads_whose_login_is_refused_respect_the_login_cap() -> None:
    world = World(REFUSED)
    world.live(manageable(), until=2 * HOUR)
    assert busiest(world.times()) <= LOGIN_CAP
    assert len(world.log) >= 20, "reads go on at the rate of the cap"


def test_a_read_with_an_unknown_result_counts_as_a_failed_login() -> None:
    world = World()
    began: list[datetime] = []

    def cut(step: Step[Any, Any, Any]) -> bool:
        began.append(world.now)
        return True

    world.live(manageable(), until=HOUR, cut=cut)
    assert busiest(began) == LOGIN_CAP
    assert len(began) >= 30
    wait = decide(manageable({"tries": (NOW,) * LOGIN_CAP}), NOW + 2 * MINUTE)
    assert (
        isinstance(wait, Wait)
        and "3 logins failed or have an unknown result" in wait.reason
        and wait.requeue_after == 3 * MINUTE
    )


def test_after_a_crash_an_interrupted_read_is_counted_before_the_next_connection() -> None:
    node, due = manageable(), NOW + 2 * MINUTE
    assert isinstance(HANDLER.recover(node, NOW + SECOND, "deploy"), DoNothing), "the interrupted step was no read"
    counted = moved(HANDLER.recover(node, due, power.READ))
    assert (counted.bmc.tries, counted.bmc.trying) == ((due,), None)
    capped = manageable({"tries": (due,) * LOGIN_CAP})
    assert isinstance(HANDLER.recover(capped, due, power.READ), Wait)


def test_a_read_of_a_shared_bmc_counts_its_login_once_and_before_it_connects() -> None:
    shared = replace(manageable(), bmc_address="https://10.0.0.1/redfish/v1/Systems/1")
    due = NOW + 2 * INTERVAL
    counted = moved(decide(shared, due))
    assert (counted.bmc.tries, counted.bmc.trying) == ((due,), due)
    step = decide(counted, due)
    assert isinstance(step, Step)
    for unseen in (step.when_interrupted(), HANDLER.recover(counted, due, power.READ)):
        assert unseen is not None
        spent = moved(unseen).bmc
        assert (spent.tries, spent.trying) == ((due,), None)
    world = World()
    after = world.live(shared, until=10 * MINUTE)
    assert (after.bmc.tries, after.bmc.trying) == ((), None)
    assert 9 <= len(world.log) <= 10


def test_a_refused_read_without_a_connection_counts_no_login() -> None:
    world = World(BmcError(BmcFailure.AUTH, "too many logins", dialled=False, retry_after=MINUTE))
    after = world.live(manageable(), until=3 * MINUTE)
    assert (after.bmc.sync_failure, after.bmc.tries) == (BmcFailure.AUTH, ())


def test_settings_with_which_no_read_would_be_fresh_are_refused() -> None:
    with pytest.raises(ValueError, match="observation_ttl"):
        NodeConfig(power_sync_interval=10 * MINUTE)
