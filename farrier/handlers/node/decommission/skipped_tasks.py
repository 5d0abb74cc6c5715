"""Says why a decommission gives the node's agent no task, for the tasks and for the stages that depend on the agent."""

from __future__ import annotations

from farrier.model.node.snapshot import Node

MACHINE_RELEASED = "machine_released"
"""The result of a task whose agent is gone."""


def pointless(node: Node) -> str | None:
    """Return why no task is issued: the workflow needs no task, or the machine was released together with its agent."""
    workflow = node.live
    if workflow.options.untouched is not None:
        return workflow.options.untouched
    return MACHINE_RELEASED if workflow.memo.released or node.is_bare else None
