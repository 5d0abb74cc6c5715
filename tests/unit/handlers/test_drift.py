"""Drift of a node in service: a contradiction in MAAS takes it out of service, and the proof of its end brings it
back."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from farrier.config import NodeConfig
from farrier.model.loop.outcome import Step, Transition, Wait
from farrier.model.maas.reading import MaasStatus
from farrier.model.machine.observation import CONFIRMED_AFTER, MaasObservation
from farrier.model.node.conditions import (
    DISAGREEMENT,
    FROZEN,
    MACHINE_DELETED,
    NOT_SCRUBBED,
    Condition,
    Effect,
    Source,
    quarantining,
    stated,
)
from farrier.model.node.layers import Management
from farrier.model.node.layers import NodeStatus as N
from farrier.model.node.layers import OnboardingMode as M
from farrier.model.node.snapshot import Decommission, Node
from tests.support.nodes import (
    LONG_AGO,
    MINUTE,
    NOW,
    SECOND,
    agent,
    decide,
    decommission,
    hold,
    moved,
    node,
    unclean,
    with_bmc,
)

DRIFTED = replace(stated(Source.REGION, DISAGREEMENT, "MAAS says ready"), since=LONG_AGO)
TTL = NodeConfig().observation_ttl
CONTRADICTIONS = [state for state in MaasStatus if state not in (MaasStatus.DEPLOYED, MaasStatus.UNKNOWN)]


def seen(state: MaasStatus, **fields: Any) -> MaasObservation:
    """A confirmed observation: first read two minutes ago, last read a second ago."""
    held = {"owner": "farrier", "ours": True} if state is MaasStatus.DEPLOYED else {}
    given = {
        **held,
        "system_id": "abc123",
        "since": NOW - 2 * MINUTE,
        "read_at": NOW - SECOND,
        "fresh_at": NOW - SECOND,
    }
    return MaasObservation(**{"state": state, **given, **fields})


def serving(status: N, observation: MaasObservation | None, **fields: Any) -> Node:
    return node(status, maas_id="abc123", maas=observation, agent=agent(), **fields)


@pytest.mark.parametrize("state", CONTRADICTIONS)
@pytest.mark.parametrize("status", [N.ACTIVE, N.OFFLINE])
def test_a_machine_that_is_no_longer_deployed_takes_its_node_out_of_service(status: N, state: MaasStatus) -> None:
    after = moved(decide(serving(status, seen(state))))
    assert after.status is N.QUARANTINED
    expected = MACHINE_DELETED if state is MaasStatus.ABSENT else DISAGREEMENT
    assert [each.name for each in quarantining(after.conditions)] == [f"region/{expected}"]


def test_the_brake_of_the_site_keeps_a_node_in_service_and_reports_the_contradiction() -> None:
    held = serving(N.ACTIVE, seen(MaasStatus.READY), braked=("region",), conditions=(DRIFTED,))
    decided = decide(held)
    assert isinstance(decided, Wait)
    assert decided.reason == "the brake of the site keeps the node in service: region/disagreement: MAAS says ready"


def test_an_offline_node_is_quarantined_regardless_of_the_brake_of_its_site() -> None:
    assert moved(decide(serving(N.OFFLINE, seen(MaasStatus.READY), braked=("region",)))).status is N.QUARANTINED


@pytest.mark.parametrize(
    "observation",
    [
        pytest.param(None, id="nothing was read"),
        pytest.param(seen(MaasStatus.DEPLOYED), id="deployed"),
        pytest.param(seen(MaasStatus.UNKNOWN), id="a status number of a newer MAAS"),
        pytest.param(seen(MaasStatus.READY, since=NOW - SECOND), id="seen once"),
        pytest.param(seen(MaasStatus.READY, since=NOW - CONFIRMED_AFTER), id="seen twice, not far enough apart"),
        pytest.param(seen(MaasStatus.READY, fresh_at=NOW - TTL - SECOND), id="stale"),
    ],
)
def test_an_unconfirmed_contradiction_moves_no_node(observation: MaasObservation | None) -> None:
    assert not isinstance(decide(serving(N.ACTIVE, observation)), Transition)


ANOTHER_USERS: dict[str, Any] = {"owner": "ann", "ours": False}


def test_a_machine_that_another_user_deployed_since_takes_its_node_out_of_service() -> None:
    observation = seen(MaasStatus.DEPLOYED, since=NOW - SECOND, **ANOTHER_USERS)
    after = moved(decide(serving(N.ACTIVE, observation, onboarded_by=M.DEPLOY)))
    assert after.status is N.QUARANTINED
    assert [(each.id, "'ann'" in each.message) for each in after.conditions] == [(DISAGREEMENT, True)]


@pytest.mark.parametrize(
    ("held", "mode"),
    [(ANOTHER_USERS, M.MANUAL), (ANOTHER_USERS, M.ADOPT), ({"owner": "farrier", "ours": None}, M.DEPLOY)],
    ids=["put into service by hand", "adopted", "the user of farrier's key is unknown"],
)
def test_a_node_stays_in_service_unless_another_user_is_known_to_have_replaced_its_system(
    held: dict[str, Any], mode: M
) -> None:
    observation = seen(MaasStatus.DEPLOYED, **held)
    assert not isinstance(decide(serving(N.ACTIVE, observation, onboarded_by=mode)), Transition)


def test_a_node_with_a_decommission_before_its_drain_is_quarantined_too() -> None:
    after = moved(decide(serving(N.ACTIVE, seen(MaasStatus.READY), workflow=decommission())))
    assert after.status is N.QUARANTINED
    assert isinstance(after.workflow, Decommission)


def back(observation: MaasObservation, cause: Condition = DRIFTED, **fields: Any) -> bool:
    """Return whether a node that was quarantined an hour ago returns."""
    fields["conditions"] = (cause, *fields.get("conditions", ()))
    decision = decide(serving(N.QUARANTINED, observation, **fields))
    if not isinstance(decision, Transition):
        return False
    assert (decision.to.status, decision.to.conditions) == (N.ACTIVE, ())
    return True


@pytest.mark.parametrize("cause", [DISAGREEMENT, MACHINE_DELETED])
def test_a_quarantined_node_returns_after_its_machine_was_deployed_again_for_a_minute(cause: str) -> None:
    assert back(seen(MaasStatus.DEPLOYED), replace(DRIFTED, id=cause))


@pytest.mark.parametrize("state", [MaasStatus.READY, MaasStatus.DEPLOYED])
def test_a_node_that_a_later_load_may_return_reads_its_bmc_only_after_a_load(state: MaasStatus) -> None:
    readable = with_bmc(Management.MANAGEABLE, status=N.QUARANTINED, conditions=(DRIFTED,))
    step = decide(replace(readable, maas_id="abc123", maas=seen(state, since=NOW - SECOND)))
    assert isinstance(step, Step)
    assert step.observes == (state is MaasStatus.READY)


def test_a_reading_is_confirmed_while_no_event_contradicts_it() -> None:
    read = NOW - 2 * MINUTE
    assert back(seen(MaasStatus.DEPLOYED, since=read, read_at=read, fresh_at=NOW - SECOND))


@pytest.mark.parametrize(
    ("observation", "fields"),
    [
        pytest.param(seen(MaasStatus.DEPLOYED, since=NOW - SECOND), {}, id="only just deployed"),
        pytest.param(seen(MaasStatus.DEPLOYED, fresh_at=NOW - TTL - SECOND), {}, id="stale"),
        pytest.param(seen(MaasStatus.READY), {}, id="still contradicting"),
        pytest.param(
            seen(MaasStatus.DEPLOYED, since=LONG_AGO - MINUTE, read_at=LONG_AGO - SECOND, fresh_at=NOW - SECOND),
            {},
            id="not read since it was quarantined",
        ),
        pytest.param(seen(MaasStatus.DEPLOYED), {"conditions": (unclean(NOT_SCRUBBED),)}, id="not scrubbed"),
        pytest.param(seen(MaasStatus.DEPLOYED), {"ever_onboarded": False}, id="never onboarded"),
    ],
)
def test_a_quarantined_node_stays_until_the_deployment_is_confirmed(
    observation: MaasObservation, fields: dict[str, Any]
) -> None:
    assert not back(observation, **fields)


def test_a_deployed_machine_does_not_end_a_quarantine_with_another_cause() -> None:
    assert not back(seen(MaasStatus.DEPLOYED), stated(Source.WORKFLOW, FROZEN, "held for a test"))
    assert not back(seen(MaasStatus.DEPLOYED), conditions=(hold(),))


def test_a_node_that_is_not_healthy_stays_quarantined_although_its_machine_is_deployed() -> None:
    silent = replace(agent(), last_heartbeat_at=NOW - timedelta(hours=1))
    quarantined = serving(N.QUARANTINED, seen(MaasStatus.DEPLOYED), conditions=(DRIFTED,))
    assert not isinstance(decide(replace(quarantined, agent=silent)), Transition)


@pytest.mark.parametrize("ours", [False, None], ids=["another user's", "unknown owner"])
@pytest.mark.parametrize("cause", [DISAGREEMENT, MACHINE_DELETED])
def test_a_deployment_by_another_or_unknown_user_does_not_end_the_quarantine(cause: str, ours: bool | None) -> None:
    assert not back(seen(MaasStatus.DEPLOYED, owner="ann", ours=ours), replace(DRIFTED, id=cause))


@pytest.mark.parametrize("cause", [DISAGREEMENT, MACHINE_DELETED])
def test_a_node_that_lost_its_machine_stays_quarantined_until_it_is_released(cause: str) -> None:
    """An undo also takes the machine from the node, so the missing ID proves nothing."""
    lost = replace(serving(N.QUARANTINED, None, conditions=(replace(DRIFTED, id=cause),)), maas_id=None)
    assert isinstance(decide(lost), Wait)


def test_a_released_contradiction_stays_a_note_while_it_lasts() -> None:
    released = replace(DRIFTED, effect=Effect.NOTE, released=True)
    assert not isinstance(decide(serving(N.ACTIVE, seen(MaasStatus.READY), conditions=(released,))), Transition)
    deleted = moved(decide(serving(N.ACTIVE, seen(MaasStatus.ABSENT), conditions=(released,))))
    assert deleted.status is N.QUARANTINED, "another contradiction is not released"


def test_a_contradiction_that_can_no_longer_be_read_neither_takes_out_of_service_nor_returns() -> None:
    stale = seen(MaasStatus.READY, fresh_at=NOW - TTL - SECOND)
    assert not isinstance(decide(serving(N.ACTIVE, stale, conditions=(DRIFTED,))), Transition)
    offline = decide(serving(N.OFFLINE, stale, conditions=(DRIFTED,)))
    assert (
        isinstance(offline, Wait) and "unknown whether a condition still stands: region/disagreement" in offline.reason
    )
    assert isinstance(decide(serving(N.QUARANTINED, stale, conditions=(DRIFTED,))), Wait)
