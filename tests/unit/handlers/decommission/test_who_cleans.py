"""Who cleans a machine: decided by the site's file when the decommission begins, and kept."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from farrier.config import NodeConfig
from farrier.config.sites import CleaningSite, Erase, ReleaseSite
from farrier.handlers.node.handler import NodeHandler
from farrier.model.intents.actions import Action
from farrier.model.loop.outcome import Wait
from farrier.model.node import stages
from farrier.model.node.failures import FailureClass
from farrier.model.node.layers import CleaningBy, DecommissionMode
from farrier.model.node.layers import NodeStatus as N
from farrier.model.node.layers import WorkflowStatus as W
from farrier.model.node.snapshot import Decommission, Node, TaskStatus, TaskType, WorkflowOptions
from farrier.model.node.stages import DecommissionStage as D
from tests.support.nodes import MINUTE, NOW, agent, answers, decommission, intent, moved, node, task
from tests.support.stages import SITE

REGION, AGENT, WORKER = CleaningBy.REGION, CleaningBy.AGENT, CleaningBy.WORKER
REIMAGE, FULL = DecommissionMode.REIMAGE, DecommissionMode.FULL_DECOMMISSION
RESET, STORAGE = DecommissionMode.SOFT_RESET, DecommissionMode.STORAGE_CLEANUP


def handler(by: CleaningBy | None, *, erase: Erase | None = None) -> NodeHandler:
    site = replace(SITE, cleaning=CleaningSite(by=by), release=ReleaseSite(erase=erase))
    return NodeHandler(NodeConfig(), sites={site.name: site})


def in_service(status: N = N.ACTIVE, **fields: Any) -> Node:
    return node(status, **{"site": SITE.name, "maas_id": "abc123", "agent": agent()} | fields)


def agentless(status: N = N.ACTIVE, **fields: Any) -> Node:
    return in_service(status, **{"agentless": True, "agent": None} | fields)


def begun(at: NodeHandler, it: Node, mode: DecommissionMode) -> Decommission:
    asked = replace(
        it,
        intents=(
            intent(Action.DECOMMISSION, mode=mode, leave_on=True)
            if mode is FULL
            else intent(Action.DECOMMISSION, mode=mode),
        ),
    )
    live = moved(at.handle(asked, NOW)).workflow
    assert isinstance(live, Decommission)
    return live


@pytest.mark.parametrize(
    ("by", "mode", "who"),
    [
        *((None, mode, REGION) for mode in (REIMAGE, FULL)),
        *((None, mode, None) for mode in (RESET, STORAGE)),
        *((REGION, mode, REGION) for mode in (REIMAGE, FULL)),
        *((REGION, mode, AGENT) for mode in (RESET, STORAGE)),
        *((AGENT, mode, AGENT) for mode in DecommissionMode),
        *((WORKER, mode, WORKER) for mode in DecommissionMode),
    ],
)
def test_the_region_cleans_by_default_where_it_releases_the_machine(
    by: CleaningBy | None, mode: DecommissionMode, who: CleaningBy | None
) -> None:
    assert begun(handler(by), in_service(), mode).options.cleaned_by is who


def test_the_region_does_not_clean_what_it_does_not_have() -> None:
    assert begun(handler(None), in_service(maas_id=None), FULL).options.cleaned_by is None


@pytest.mark.parametrize("mode", [REIMAGE, FULL])
def test_an_agentless_node_that_the_region_erases_needs_no_force(mode: DecommissionMode) -> None:
    assert begun(handler(None), agentless(), mode).options.force is False


@pytest.mark.parametrize(
    ("by", "erase", "mode", "fields"),
    [
        (None, None, RESET, {}),
        (AGENT, None, REIMAGE, {}),
        (WORKER, None, REIMAGE, {}),
        (None, Erase.NONE, REIMAGE, {}),
        (None, Erase.QUICK, FULL, {}),
        (None, None, FULL, {"maas_id": None}),
    ],
    ids=["soft reset", "by an agent", "by a worker", "not erased", "erased in part", "not in MAAS"],
)
def test_an_agentless_node_that_nobody_is_sure_to_clean_needs_force(
    by: CleaningBy | None, erase: Erase | None, mode: DecommissionMode, fields: dict[str, Any]
) -> None:
    asked = replace(agentless(**fields), intents=(intent(Action.DECOMMISSION, mode=mode, leave_on=mode is FULL),))
    ((verdict, reason),) = answers(handler(by, erase=erase).handle(asked, NOW))
    assert verdict == "rejected" and "force: true" in reason


def test_a_drain_that_nobody_takes_of_an_agentless_node_does_not_hold_up_the_region() -> None:
    job = decommission(D.DRAIN_NODE, mode=REIMAGE, options=WorkflowOptions(cleaned_by=REGION))
    draining = agentless(status=N.DRAINING, workflow=job, tasks=(task(TaskType.DRAIN, created_at=NOW),))
    long_after = NOW + NodeConfig().force_after
    assert isinstance(handler(None).handle(draining, NOW), Wait)
    went_on = moved(handler(None).handle(draining, long_after))
    assert went_on.status is N.RETIRED
    claimed = replace(draining, tasks=(task(TaskType.DRAIN, TaskStatus.DISPATCHED, lease_until=long_after + MINUTE),))
    assert isinstance(handler(None).handle(claimed, long_after), Wait), "a worker has taken it"


@pytest.mark.parametrize("mode", [REIMAGE, FULL])
def test_the_machine_is_released_before_the_region_checks_it(mode: DecommissionMode) -> None:
    path = stages.path_of(mode, REGION)
    assert sorted(path) == sorted(stages.path_of(mode)), "the same stages, in another order"
    assert path.index(D.RELEASE_MAAS_NODE) < path.index(D.CLEANUP_STORAGE) < path.index(D.VALIDATE_CLEAN_NODE)
    assert path.index(D.DRAIN_NODE) < path.index(D.RELEASE_MAAS_NODE)
    assert stages.next_stage(mode, D.RELEASE_MAAS_NODE, cleaned_by=REGION) is D.CLEANUP_STORAGE
    assert stages.uses_maas(mode, D.CLEANUP_STORAGE, REGION) and not stages.uses_maas(mode, D.CLEANUP_STORAGE, AGENT)


@pytest.mark.parametrize("stage", [D.CLEANUP_STORAGE, D.SCRUB_GPU, D.VALIDATE_CLEAN_NODE])
def test_a_node_whose_check_is_cancelled_is_marked_as_not_scrubbed(stage: D) -> None:
    job = decommission(
        stage,
        W.FAILED_MANUAL_INTERVENTION,
        mode=REIMAGE,
        options=WorkflowOptions(cleaned_by=REGION),
        failure_class=FailureClass.VALIDATION_FAILED,
    )
    stopped = in_service(N.RETIRED, agent=None, workflow=job, intents=(intent(Action.CANCEL),))
    ended = moved(handler(None).handle(stopped, NOW))
    assert ended.workflow is not None and ended.workflow.status is W.CANCELLED and ended.not_scrubbed
