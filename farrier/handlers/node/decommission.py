"""Decommission: its stages and how it ends (model §4, 000 §5).

`disable_node` takes the node to `draining`, `drain_node` to `retired`; all later stages run there, until
`remove_gpuaas_node_record` takes it to `removing`. The agent's tasks are issued in the commit that enters a state which
needs one, so a node is never left in it alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from msgspec.structs import replace

from farrier.handlers.node import tasks
from farrier.handlers.node.moves import Policy, change, job
from farrier.handlers.node.stage import Done, Failed, Stage, StageResult, Step
from farrier.model.failures import FailureClass
from farrier.model.node import Decommission, Node, StopRequest, TaskType
from farrier.model.stages import DecommissionStage as D
from farrier.model.status import NodeStatus as N
from farrier.model.workflow import DecommissionMode
from farrier.model.workflow import WorkflowStatus as W
from farrier.model.writes import ForgetAgent, RevokeBootstrap, Write

_IN_SERVICE = (N.ACTIVE, N.OFFLINE, N.QUARANTINED)


def disable_node(node: Node, now: datetime, config: Policy) -> StageResult:
    """No longer schedulable, with its drain task in the same commit. A quarantine is remembered until the node is
    retired: a drain that is cancelled does not lift it."""
    if node.status not in _IN_SERVICE:
        return Done(reason=f"it is {node.status} already", skipped=f"the node was {node.status} already")
    return Done(
        reason="taken out of scheduling",
        to=change(node, status=N.DRAINING),
        writes=(tasks.first(_own(node), TaskType.DRAIN),),
    )


def drain_node(node: Node, now: datetime, config: Policy) -> StageResult:
    """Empty, and so retired."""
    if node.status in _IN_SERVICE:  # resumed after a drain that failed for good
        return Step(
            to=change(node, status=N.DRAINING),
            reason="drains again",
            writes=tasks.reissue(node, TaskType.DRAIN, now),
        )
    if node.status is not N.DRAINING:
        return Done(reason=f"it is {node.status} already", skipped=f"the node was {node.status} already")
    result = tasks.work(node, TaskType.DRAIN, now, config)
    if isinstance(result, Done):
        return replace(result, to=change(result.to or node, status=N.RETIRED, quarantine=None))
    if isinstance(result, Failed):
        return replace(result, stop=StopRequest.DRAIN_FAILED)
    return result


def _by_agent(type_: TaskType) -> Stage:
    def run(node: Node, now: datetime, config: Policy) -> StageResult:
        return tasks.work(node, type_, now, config)

    return run


def scrub_gpu(node: Node, now: datetime, config: Policy) -> StageResult:
    """Only a finished scrub clears the mark of one that was forced past."""
    result = tasks.work(node, TaskType.SCRUB_GPU, now, config)
    if isinstance(result, Done) and result.skipped is None:
        return replace(result, to=change(node, not_scrubbed=False))
    return result


def in_maas(node: Node, now: datetime, config: Policy) -> StageResult:
    """What is done in MAAS; nothing for a node that is not there, or that a deletion leaves as it is."""
    untouched = _own(node).options.untouched
    if untouched is not None:
        return Done(reason=f"MAAS: {untouched}", skipped=untouched)
    if node.maas_id is None:
        return Done(reason="the node is not in MAAS", skipped="the node is not in MAAS")
    return Failed(
        failure=FailureClass.INVALID_CONFIG,
        detail=f"site {node.site or '(none)'} has no MAAS configured, and the node has MAAS id {node.maas_id}",
    )


def retire_gpuaas_node(node: Node, now: datetime, config: Policy) -> StageResult:
    """A check: the node has been retired since its drain ended."""
    if node.status is N.RETIRED:
        return Done(reason="retired")
    return Failed(failure=FailureClass.INTERNAL, detail=f"expected a retired node, this one is {node.status}")


def remove_gpuaas_node_record(node: Node, now: datetime, config: Policy) -> StageResult:
    """Uninstalled; whoever speaks for the node from then on is not its agent."""
    if node.status is N.RETIRED:
        return Step(
            to=change(node, status=N.REMOVING),
            reason="its removal begins",
            writes=_uninstall(node, now),
        )
    result = tasks.work(node, TaskType.UNINSTALL, now, config)
    return replace(result, writes=(*result.writes, ForgetAgent())) if isinstance(result, Done) else result


def cleanup_secrets(node: Node, now: datetime, config: Policy) -> StageResult:
    """Nothing that the node's agent or installer knows opens anything any more."""
    return Done(reason="its secrets are worthless", writes=(RevokeBootstrap(), ForgetAgent()))


def complete(node: Node) -> Node:
    """The node as its decommission ends: deleted, retired, or on its way back into service."""
    workflow = _own(node)
    ended = change(node, workflow=job(node, status=W.COMPLETED, next_attempt_at=None))
    if workflow.mode is DecommissionMode.FULL_DECOMMISSION:
        return change(ended, status=N.DELETED)
    returns = node.ever_onboarded and not node.not_scrubbed and workflow.mode is not DecommissionMode.REIMAGE
    return change(ended, status=N.OFFLINE) if returns and not workflow.options.retire else ended


def _uninstall(node: Node, now: datetime) -> tuple[Write, ...]:
    if _own(node).options.untouched is not None:
        return (tasks.first(_own(node), TaskType.UNINSTALL),)
    return tasks.reissue(node, TaskType.UNINSTALL, now)


def _own(node: Node) -> Decommission:
    assert isinstance(node.workflow, Decommission), "a decommission stage runs in a decommission"
    return node.workflow


STAGES: Mapping[D, Stage] = {
    D.DISABLE_NODE: disable_node,
    D.FORCE_RELEASE_ALLOCATIONS: _by_agent(TaskType.RELEASE_ALLOCATIONS),
    D.DRAIN_NODE: drain_node,
    D.CLEANUP_STORAGE: _by_agent(TaskType.CLEANUP_STORAGE),
    D.SCRUB_GPU: scrub_gpu,
    D.VALIDATE_CLEAN_NODE: _by_agent(TaskType.VALIDATE_CLEAN),
    D.LOAD_SITE_CONFIG: in_maas,
    D.RELEASE_MAAS_NODE: in_maas,
    D.POWER_OFF_MAAS_NODE: in_maas,
    D.RETIRE_GPUAAS_NODE: retire_gpuaas_node,
    D.REMOVE_GPUAAS_NODE_RECORD: remove_gpuaas_node_record,
    D.CLEANUP_SECRETS: cleanup_secrets,
    D.REMOVE_MAAS_RECORD: in_maas,
}
