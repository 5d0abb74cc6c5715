"""Stages `disable_node`, `drain_node` and `retire_gpuaas_node`: out of scheduling, empty, retired."""

from __future__ import annotations

import pytest

from farrier.config import NodeConfig
from farrier.handlers.node.changes import Done, Failed, StageStep, with_fields
from farrier.model.node.conditions import DISAGREEMENT, DRAIN_FAILED, Source, stated
from farrier.model.node.failures import FailureClass as F
from farrier.model.node.layers import NodeStatus as N
from farrier.model.node.snapshot import StopRequest, TaskStatus, TaskType, WorkflowOptions
from farrier.model.node.stages import DecommissionStage as D
from farrier.model.node.writes import CreateTask
from tests.support.decommissions import fails, is_through, skips, waits
from tests.support.nodes import hold, task
from tests.support.stages import Stand

T = TaskStatus
IN_SERVICE = (N.ACTIVE, N.OFFLINE, N.QUARANTINED)
DRIFTED = stated(Source.REGION, DISAGREEMENT, "ready")
FAILED = stated(Source.WORKFLOW, DRAIN_FAILED)
HELD = (hold(),)


def at(stand: Stand, stage: D, status: N, **fields: object) -> None:
    stand.decommissions(stage)
    stand.node = with_fields(stand.node, status=status, **fields)


# --- disable_node


@pytest.mark.parametrize("status", IN_SERVICE)
async def test_a_node_in_service_starts_to_drain_in_the_commit_that_creates_its_task(stand: Stand, status: N) -> None:
    at(stand, D.DISABLE_NODE, status, conditions=HELD if status is N.QUARANTINED else ())
    before = stand.node.conditions
    is_through(await stand.settle())
    assert stand.node.status is N.DRAINING
    assert stand.writes == [CreateTask(type=TaskType.DRAIN)]
    assert stand.node.conditions == before, "cancelling a drain does not end the quarantine"


@pytest.mark.parametrize("status", [N.DRAINING, N.RETIRED])
async def test_a_node_that_is_out_of_service_keeps_its_state(stand: Stand, status: N) -> None:
    at(stand, D.DISABLE_NODE, status)
    skips(await stand.settle(), status)
    assert stand.node.status is status and stand.writes == []


async def test_a_deletion_creates_a_drain_task_that_is_already_cancelled(stand: Stand) -> None:
    stand.decommissions(D.DISABLE_NODE, options=WorkflowOptions(untouched="not_applicable"))
    stand.node = with_fields(stand.node, status=N.QUARANTINED)
    is_through(await stand.settle())
    assert stand.writes == [CreateTask(type=TaskType.DRAIN, ended=T.CANCELLED, result="not_applicable")]


# --- drain_node


async def test_a_node_whose_drain_succeeded_is_retired_and_only_operators_holds_stand(stand: Stand) -> None:
    standing = (DRIFTED, *HELD, FAILED)
    at(stand, D.DRAIN_NODE, N.DRAINING, conditions=standing, tasks=(task(TaskType.DRAIN, T.SUCCEEDED),))
    is_through(await stand.settle())
    assert (stand.node.status, stand.node.conditions) == (N.RETIRED, HELD)
    skips(await stand.settle(), "retired")


async def test_the_stage_waits_for_an_open_drain(stand: Stand) -> None:
    at(stand, D.DRAIN_NODE, N.DRAINING, tasks=(task(TaskType.DRAIN),))
    waits(await stand.settle(), "waits for an agent")
    assert stand.node.status is N.DRAINING


@pytest.mark.parametrize("status", IN_SERVICE)
async def test_a_decommission_that_is_resumed_drains_the_node_again(stand: Stand, status: N) -> None:
    at(stand, D.DRAIN_NODE, status, tasks=(task(TaskType.DRAIN, T.FAILED),))
    step = await stand.once()
    assert isinstance(step, StageStep) and step.to.status is N.DRAINING
    assert [write.type for write in stand.writes if isinstance(write, CreateTask)] == [TaskType.DRAIN]


async def test_a_drain_that_failed_for_good_stops_the_decommission(stand: Stand) -> None:
    last = task(TaskType.DRAIN, T.FAILED, failures=NodeConfig().max_task_attempts - 1, created_at=stand.now)
    at(stand, D.DRAIN_NODE, N.DRAINING, tasks=(last,))
    failed = await stand.settle()
    fails(failed, F.TASK_FAILED)
    assert isinstance(failed, Failed) and failed.stop is StopRequest.DRAIN_FAILED


# --- retire_gpuaas_node


async def test_a_retired_node_passes_the_stage_without_a_change(stand: Stand) -> None:
    at(stand, D.RETIRE_GPUAAS_NODE, N.RETIRED)
    settled = await stand.settle()
    assert isinstance(settled, Done) and settled.to is None and settled.writes == ()


async def test_a_node_that_is_not_retired_fails_the_stage_as_an_internal_error(stand: Stand) -> None:
    at(stand, D.RETIRE_GPUAAS_NODE, N.DRAINING)
    fails(await stand.settle(), F.INTERNAL, "draining")
