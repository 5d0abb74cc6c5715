"""Stages `remove_gpuaas_node_record` and `cleanup_secrets`: the agent is uninstalled, and its secrets are revoked."""

from __future__ import annotations

import pytest

from farrier.handlers.node.changes import StageStep, with_fields
from farrier.model.node.layers import NodeStatus as N
from farrier.model.node.snapshot import Memo, TaskStatus, TaskType, WorkflowOptions
from farrier.model.node.stages import DecommissionStage as D
from farrier.model.node.writes import CreateTask, ForgetAgent, RevokeBootstrap, UseNetworks
from tests.support.decommissions import is_through, skips, waits
from tests.support.nodes import task
from tests.support.stages import Stand

T = TaskStatus


async def test_a_removal_begins_in_the_commit_that_creates_its_task(stand: Stand) -> None:
    stand.decommissions(D.REMOVE_GPUAAS_NODE_RECORD)
    step = await stand.once()
    assert isinstance(step, StageStep) and step.to.status is N.REMOVING
    assert stand.writes == [CreateTask(type=TaskType.UNINSTALL)]
    stand.node = with_fields(stand.node, tasks=(task(TaskType.UNINSTALL),))
    waits(await stand.settle(), "waits for an agent")
    assert ForgetAgent() not in stand.writes, "the task is still open"
    stand.node = with_fields(stand.node, tasks=(task(TaskType.UNINSTALL, T.SUCCEEDED),))
    is_through(await stand.settle())
    assert ForgetAgent() in stand.writes


@pytest.mark.parametrize(
    ("options", "memo", "result"),
    [
        (WorkflowOptions(), Memo(released=True), "machine_released"),
        (WorkflowOptions(untouched="not_applicable"), Memo(), "not_applicable"),
    ],
    ids=["released", "deleted"],
)
async def test_a_removal_with_nothing_to_uninstall_creates_a_task_that_is_already_cancelled(
    stand: Stand, options: WorkflowOptions, memo: Memo, result: str
) -> None:
    stand.decommissions(D.REMOVE_GPUAAS_NODE_RECORD, options=options, memo=memo)
    step = await stand.once()
    assert isinstance(step, StageStep) and step.to.status is N.REMOVING
    ended = CreateTask(type=TaskType.UNINSTALL, ended=T.CANCELLED, result=result)
    assert stand.writes == [ended]
    stand.node = with_fields(stand.node, tasks=(task(TaskType.UNINSTALL, T.CANCELLED, result=result),))
    skips(await stand.settle(), result)
    assert [write for write in stand.writes if isinstance(write, CreateTask)] == [ended], "the task is not issued again"


async def test_cleanup_secrets_revokes_every_secret_of_the_node(stand: Stand) -> None:
    stand.decommissions(D.CLEANUP_SECRETS)
    stand.node = with_fields(stand.node, status=N.REMOVING, secrets_left=("a bootstrap token", "the agent's key"))
    waits(await stand.once(), "removes a bootstrap token, the agent's key")
    assert set(stand.writes) == {RevokeBootstrap(), ForgetAgent(), UseNetworks()}
    waits(await stand.once(), "removes ")
    stand.node = with_fields(stand.node, secrets_left=())
    is_through(await stand.once())


async def test_a_node_stopped_in_cleanup_secrets_first_returns_to_removing(stand: Stand) -> None:
    """If no stage followed, the node would go from `retired` to `deleted`, which no edge allows."""
    stand.decommissions(D.CLEANUP_SECRETS, options=WorkflowOptions(leave_out=(D.REMOVE_MAAS_RECORD,)))
    step = await stand.once()
    assert isinstance(step, StageStep) and step.to.status is N.REMOVING
    stand.node = with_fields(stand.node, secrets_left=())
    is_through(await stand.settle())
