"""Attempts to verify a BMC: their times, their results, and the cap on failed logins, which applies to every intent."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import anyio
import msgspec
import pytest
from typing_extensions import override

from farrier.handlers.node.changes import NodeServices, Outcome
from farrier.model.intents.actions import Action
from farrier.model.intents.params import PowerRequest
from farrier.model.loop.outcome import DoNothing, Step, Wait
from farrier.model.machine.bmc import LOGIN_CAP, LOGIN_WINDOW, BmcError, BmcFailure, BmcReading, BmcTarget, PowerState
from farrier.model.node.layers import Management as M
from farrier.model.node.layers import NodeStatus
from farrier.model.node.layers import WorkflowStatus as W
from farrier.model.node.snapshot import Bmc, Node, Pause
from farrier.protocols import BmcClient
from tests.support.nodes import (
    HANDLER,
    MINUTE,
    NOW,
    SECOND,
    Alone,
    NoRegions,
    Secrets,
    answers,
    decide,
    intent,
    moved,
    node,
    onboarding,
    with_bmc,
)

READING = BmcReading(power=PowerState.ON, system_path="/redfish/v1/Systems/1", credential_version="v2")


class OneAnswer(BmcClient):
    """A BMC that returns one result for every read."""

    def __init__(self, answer: BmcReading | BmcError) -> None:
        self.answer = answer

    @override
    async def verify(self, target: BmcTarget, *, macs: bool = False) -> BmcReading:
        if isinstance(self.answer, BmcError):
            raise self.answer
        return self.answer

    @override
    async def read(self, target: BmcTarget) -> BmcReading:
        return await self.verify(target)

    @override
    async def set_power(
        self, target: BmcTarget, wanted: PowerRequest, *, graceful: bool = False, send: bool = True
    ) -> BmcReading:
        return await self.verify(target)


def verified(node: Node, answer: BmcReading | BmcError, now: datetime = NOW) -> Node:
    """The node after a step with this result."""
    step = decide(node, now)
    assert isinstance(step, Step), step

    unusable = isinstance(answer, BmcError) and answer.failure is BmcFailure.INCOMPLETE

    async def act() -> Outcome:
        return await step.act(
            NodeServices(OneAnswer(answer), Secrets(None if unusable else "v1"), NoRegions(), Alone())
        )

    return moved(anyio.run(act))


def verifying(**known: Any) -> Node:
    """A node in verification whose login was just counted."""
    given: dict[str, Any] = {"tries": (NOW,), "trying": NOW}
    bmc = Bmc(**given | known)
    return with_bmc(M.VERIFYING, bmc, management_entered_at=NOW)


def asking(node: Node, action: Action, **params: Any) -> Node:
    return msgspec.structs.replace(node, intents=(intent(action, **params),))


def life(
    answer: BmcReading | BmcError, *, until: timedelta, start: Node | None = None
) -> Iterator[tuple[datetime, Node]]:
    """(time, node afterwards) of every verification of a node within this time."""
    now, it = NOW, start or with_bmc(M.ENROLL)
    while now <= NOW + until:
        decision = decide(it, now)
        if isinstance(decision, Step):
            it = verified(it, answer, now)
            if decision.name == "verify":
                yield now, it
        elif isinstance(decision, Wait | DoNothing):
            now += decision.requeue_after or MINUTE
        else:
            it = msgspec.structs.replace(moved(decision), management_entered_at=now)


# --- when a verification begins


@pytest.mark.parametrize(
    ("node", "begins"),
    [
        pytest.param(with_bmc(M.ENROLL), True, id="details are complete"),
        pytest.param(with_bmc(M.ENROLL, auto_manage=False), False, id="without auto_manage"),
        pytest.param(with_bmc(M.ENROLL, Bmc(asked_at=NOW), auto_manage=False), True, id="asked for"),
        pytest.param(with_bmc(M.ENROLL, paused=Pause("maintenance", NOW)), False, id="paused"),
        pytest.param(
            with_bmc(M.ENROLL, deleting=True, workflow=onboarding(W.PENDING, mode=None)), False, id="deleting"
        ),
        pytest.param(with_bmc(M.ENROLL, Bmc(next_try_at=NOW + SECOND)), False, id="backing off"),
        pytest.param(with_bmc(M.ENROLL, Bmc(next_try_at=NOW)), True, id="back-off is over"),
        pytest.param(
            with_bmc(M.ENROLL, Bmc(failure=BmcFailure.INCOMPLETE, failures=1), management_entered_at=NOW),
            False,
            id="needs an edit",
        ),
        pytest.param(with_bmc(M.ENROLL, Bmc(failure=BmcFailure.INCOMPLETE)), True, id="was edited"),
        pytest.param(
            with_bmc(M.ENROLL, Bmc(failure=BmcFailure.IDENTITY_MISMATCH, failures=1)), False, id="another machine"
        ),
        pytest.param(
            with_bmc(M.ENROLL, Bmc(failure=BmcFailure.TLS, failures=9)), True, id="was cut off after failures"
        ),
        pytest.param(with_bmc(M.ENROLL, Bmc(tries=(NOW,) * LOGIN_CAP)), False, id="login cap"),
        pytest.param(with_bmc(M.ENROLL, Bmc(tries=(NOW - LOGIN_WINDOW,) * 9)), True, id="login cap is over"),
        pytest.param(with_bmc(M.MANAGEABLE, Bmc(power_at=NOW)), False, id="manageable"),
        pytest.param(with_bmc(M.MANAGEABLE, Bmc(asked_at=NOW)), True, id="manageable, asked for in vain before"),
        pytest.param(with_bmc(M.MANAGEABLE, Bmc(asked_at=NOW), paused=Pause("p", NOW)), False, id="manageable, paused"),
        pytest.param(node(management=M.UNMANAGED), False, id="unmanaged"),
        pytest.param(node(management=M.ERROR), False, id="error"),
    ],
)
def test_a_verification_that_begins_first_counts_its_login(node: Node, begins: bool) -> None:
    decision = decide(node)
    if begins:
        after = moved(decision)
        assert (after.management, after.bmc.tries[-1], after.bmc.trying) == (M.VERIFYING, NOW, NOW)
    else:
        assert isinstance(decision, Wait | DoNothing), decision


@pytest.mark.parametrize(
    ("details", "lacks"),
    [({"bmc_address": "https://10.0.0.1"}, "no BMC credential"), ({"bmc_credential": "env:BMC"}, "no BMC address")],
    ids=["address alone", "credential alone"],
)
def test_partial_details_are_recorded_as_incomplete_without_a_connection(details: dict[str, Any], lacks: str) -> None:
    after = moved(decide(node(management=M.ENROLL, **details)))
    assert (after.management, after.bmc.failure, after.bmc.tries) == (M.ENROLL, BmcFailure.INCOMPLETE, ())
    assert after.bmc.last_error is not None and lacks in after.bmc.last_error
    assert isinstance(decide(after), Wait)


# --- results


def test_a_successful_verification_makes_the_node_manageable_and_clears_the_error() -> None:
    after = verified(verifying(last_error="refused", failure=BmcFailure.AUTH, failures=2, asked_at=NOW), READING)
    assert after.management is M.MANAGEABLE
    assert after.bmc == Bmc(
        system_path=READING.system_path,
        tried_version="v2",
        good_version="v2",
        power=PowerState.ON,
        verified_at=NOW,
        power_at=NOW,
    )


def test_a_successful_verification_keeps_the_earlier_failed_logins() -> None:
    assert verified(verifying(tries=(NOW - MINUTE, NOW)), READING).bmc.tries == (NOW - MINUTE,)


@pytest.mark.parametrize("failure", BmcFailure)
def test_a_failed_verification_records_its_class_and_counts_a_login_only_if_it_was_refused(failure: BmcFailure) -> None:
    after = verified(verifying(good_version="v1"), BmcError(failure, "it said no", credential_version="v2"))
    assert after.management is M.ENROLL
    assert (after.bmc.failure, after.bmc.last_error, after.bmc.failures) == (failure, "it said no", 1)
    assert (after.bmc.tried_version, after.bmc.good_version) == ("v2", "v1")
    assert after.bmc.tries == ((NOW,) if failure is BmcFailure.AUTH else ())


@pytest.mark.parametrize(
    ("failure", "pauses"),
    [
        (BmcFailure.UNREACHABLE, [30, 60, 120, 240, 300, 300]),
        (BmcFailure.TIMEOUT, [30, 60, 120, 240, 300, 300]),
        (BmcFailure.AUTH, [60, 60, 300, 600, 1200, 1800, 1800]),
        (BmcFailure.TLS, [300, 600, 1200, 1800, 1800]),
        (BmcFailure.PROTOCOL, [300, 600, 1200, 1800, 1800]),
        (BmcFailure.UNSUPPORTED, [300, 600, 1200, 1800, 1800]),
        (BmcFailure.INTERNAL, [30, 60, 120, 240, 300, 300]),
        (BmcFailure.INCOMPLETE, []),
        (BmcFailure.IDENTITY_MISMATCH, []),
    ],
    ids=str,
)
def test_verifications_are_retried_with_the_backoff_of_the_failure_class(
    failure: BmcFailure, pauses: list[int]
) -> None:
    times = [at for at, _ in life(BmcError(failure, "no"), until=timedelta(hours=2))]
    gaps = [(later - earlier) / SECOND for earlier, later in pairwise(times)]
    assert gaps[: len(pauses)] == pauses
    assert bool(gaps) == bool(pauses)


def test_another_class_of_failure_starts_a_new_backoff() -> None:
    before = verifying(failure=BmcFailure.UNREACHABLE, failures=7, of_class=7)
    after = verified(before, BmcError(BmcFailure.TLS, "expired")).bmc
    assert (after.failures, after.of_class) == (8, 1)
    assert after.next_try_at == NOW + 5 * MINUTE


def test_the_last_error_is_kept_by_intents_that_change_the_bmc() -> None:
    failed = verified(verifying(), BmcError(BmcFailure.UNREACHABLE, "no route"))
    for action, params in (
        (Action.MANAGE, {}),
        (Action.SET_BMC, {"credential": "env:NEW"}),
        (Action.SET_BMC, {"address": "https://10.0.0.2"}),
    ):
        bmc = moved(decide(asking(failed, action, **params))).bmc
        assert (bmc.failure, bmc.last_error, bmc.failures, bmc.next_try_at) == (
            BmcFailure.UNREACHABLE,
            "no route",
            0,
            None,
        )


def test_complete_details_clear_the_error_incomplete() -> None:
    incomplete = moved(decide(node(management=M.ENROLL, bmc_address="https://10.0.0.1")))
    bmc = moved(decide(asking(incomplete, Action.SET_BMC, credential="env:BMC"))).bmc
    assert (bmc.failure, bmc.last_error) == (None, None)


def test_a_new_address_clears_the_facts_of_the_former_bmc_but_not_the_identity_of_the_machine() -> None:
    known = with_bmc(
        M.MANAGEABLE, Bmc(system_path="/redfish/v1/Systems/1", serial="S1", power=PowerState.ON, power_at=NOW)
    )
    bmc = moved(decide(asking(known, Action.SET_BMC, address="https://10.0.0.2"))).bmc
    assert (bmc.system_path, bmc.serial, bmc.power, bmc.power_at) == (None, "S1", PowerState.UNKNOWN, None)


# --- interrupted verifications


@pytest.mark.parametrize(
    ("node", "why"),
    [
        pytest.param(
            with_bmc(M.VERIFYING, Bmc(tries=(NOW,)), management_entered_at=NOW), "interrupted", id="no try left"
        ),
        pytest.param(msgspec.structs.replace(verifying(), paused=Pause("fire drill", NOW)), "fire drill", id="paused"),
        pytest.param(asking(verifying(), Action.DELETE), "delete", id="a pending intent"),
    ],
)
def test_a_verification_that_may_not_continue_returns_to_enroll_with_its_login_counted(node: Node, why: str) -> None:
    decision = decide(node)
    after = moved(decision)
    assert (after.management, after.bmc.trying, after.bmc.tries) == (M.ENROLL, None, node.bmc.tries)
    assert why in getattr(decision, "reason", "")
    assert after.bmc.failure is None, "this counts as no failure"


@pytest.mark.parametrize("transient", [M.VERIFYING, M.ADOPTING])
def test_a_counted_login_is_used_once_and_counts_if_its_result_is_unknown(transient: M) -> None:
    counted = Bmc(tries=(NOW - 30 * SECOND,), trying=NOW - 30 * SECOND)
    node = with_bmc(transient, counted, management_entered_at=NOW)
    assert isinstance(decide(node), Step)
    spent = moved(HANDLER.recover(node, NOW, "verify")).bmc
    assert (spent.trying, spent.tries) == (None, counted.tries)


@pytest.mark.parametrize(
    ("action", "params"),
    [(Action.PAUSE, {"reason": "fire drill"}), (Action.CLEAR_BMC, {}), (Action.SET_BMC, {"credential": "env:NEW"})],
)
def test_an_intent_that_interrupts_a_verification_ends_it(action: Action, params: dict[str, str]) -> None:
    after = moved(decide(asking(verifying(), action, **params)))
    assert after.management is not M.VERIFYING
    assert (after.bmc.trying, after.bmc.tries) == (None, (NOW,))


def test_a_verification_ends_at_its_deadline_and_its_login_stays_counted() -> None:
    stuck = verifying()
    after = moved(decide(stuck, NOW + 61 * SECOND))
    assert (after.management, after.bmc.failure, after.bmc.tries) == (M.ENROLL, BmcFailure.TIMEOUT, (NOW,))


# --- the cap


REFUSED = BmcError(BmcFailure.AUTH, "401")


def pester(node: Node, now: datetime) -> Node:
    """The node after all intents that can cause another try, one after the other."""
    for action, params in (
        (Action.CLEAR_BMC, {}),
        (Action.SET_BMC, {"address": "https://10.0.0.1", "credential": "env:BMC"}),
        (Action.MANAGE, {}),
    ):
        node = moved(decide(asking(node, action, **params), now))
        node = msgspec.structs.replace(node, management_entered_at=now, intents=())
    return node


def test_no_intent_causes_more_failed_logins_than_the_cap() -> None:
    logins: list[datetime] = []
    now, it = NOW, with_bmc(M.ENROLL)
    while now < NOW + timedelta(minutes=30):
        it = pester(it, now)
        decision = decide(it, now)
        if isinstance(decision, Step):
            if decision.name == "verify":
                logins.append(now)
            it = verified(it, REFUSED, now)
        now += 10 * SECOND
    for login in logins:
        assert sum(login <= other < login + LOGIN_WINDOW for other in logins) <= LOGIN_CAP
    assert len(logins) >= 12, "the cap must not be stricter than documented"


def test_manage_at_the_login_cap_is_accepted_and_reports_that_it_waits() -> None:
    full = Bmc(tries=(NOW - 3 * MINUTE, NOW - 2 * MINUTE, NOW - MINUTE))
    for management in (M.ENROLL, M.MANAGEABLE):
        decision = decide(asking(with_bmc(management, full), Action.MANAGE))
        assert answers(decision)[0][0] == "accepted" and "within 5m, 3 logins" in answers(decision)[0][1]
        after = msgspec.structs.replace(moved(decision), intents=())
        wait = decide(after)
        assert isinstance(wait, Wait) and wait.requeue_after == 2 * MINUTE
        assert moved(decide(after, NOW + 2 * MINUTE)).management is M.VERIFYING


def test_an_edit_at_the_login_cap_is_stored_and_verified_later() -> None:
    full = Bmc(tries=(NOW - 3 * MINUTE, NOW - 2 * MINUTE, NOW - MINUTE))
    edited = with_bmc(M.MANAGEABLE, full, auto_manage=False)
    after = moved(decide(asking(edited, Action.SET_BMC, credential="env:NEW")))
    waiting = moved(decide(msgspec.structs.replace(after, intents=(), management_entered_at=NOW)))
    assert (waiting.management, waiting.bmc_credential, waiting.bmc.tries) == (M.ENROLL, "env:NEW", full.tries)
    assert moved(decide(waiting, NOW + 2 * MINUTE)).management is M.VERIFYING


# --- addresses


def test_the_bmc_of_a_deleted_node_is_not_verified() -> None:
    gone = with_bmc(M.ENROLL, status=NodeStatus.DELETED)
    assert type(decide(gone)).__name__ == "Deleted"


@pytest.mark.parametrize("management", [M.VERIFYING, M.ADOPTING])
def test_details_of_another_node_do_not_interrupt_a_verification_that_waits_to_begin(management: M) -> None:
    free = intent(Action.SET_BMC, address="taken.example")
    taken = msgspec.structs.replace(free, conflict="gpu-2")
    probing = with_bmc(management, Bmc(tries=(NOW,), trying=NOW), management_entered_at=NOW, intents=(taken,))
    assert isinstance(decide(probing), Wait), "the intent is answered first, and then the probe goes on"
    assert answers(decide(probing))[0][0] == "rejected"
    assert moved(decide(msgspec.structs.replace(probing, intents=(free,)))).bmc.trying is None
