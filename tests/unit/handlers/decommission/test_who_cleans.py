"""Who cleans a machine: decided by the site's file when the decommission begins, and kept."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from farrier.config import NodeConfig
from farrier.config.sites import CleaningSite
from farrier.handlers.node.handler import NodeHandler
from farrier.model.intents.actions import Action
from farrier.model.node import stages
from farrier.model.node.failures import FailureClass
from farrier.model.node.snapshot import Decommission, Node, WorkflowOptions
from farrier.model.node.stages import DecommissionStage as D
from farrier.model.node.status import NodeStatus as N
from farrier.model.node.workflow import CleaningBy, DecommissionMode
from farrier.model.node.workflow import WorkflowStatus as W
from tests.support.nodes import NOW, agent, decommission, intent, moved, node
from tests.support.stages import SITE

REGION, AGENT, WORKER = CleaningBy.REGION, CleaningBy.AGENT, CleaningBy.WORKER
REIMAGE, FULL = DecommissionMode.REIMAGE, DecommissionMode.FULL_DECOMMISSION
RESET, STORAGE = DecommissionMode.SOFT_RESET, DecommissionMode.STORAGE_CLEANUP


def handler(by: CleaningBy | None, *, has_maas: bool = True) -> NodeHandler:
    site = replace(SITE, cleaning=CleaningSite(by=by), maas=SITE.maas if has_maas else None)
    return NodeHandler(NodeConfig(), sites={site.name: site})


def in_service(status: N = N.ACTIVE, **fields: Any) -> Node:
    return node(status, **{"site": SITE.name, "maas_id": "abc123", "agent": agent()} | fields)


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
    assert begun(handler(None, has_maas=False), in_service(), FULL).options.cleaned_by is None


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
