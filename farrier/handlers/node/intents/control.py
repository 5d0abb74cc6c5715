"""Responses to `pause` and `unpause`."""

from __future__ import annotations

from farrier.handlers.node.changes import with_fields, with_note
from farrier.handlers.node.intents.reply import Accept, Reply, Request
from farrier.handlers.node.workflow import tasks
from farrier.model.intents.params import Because
from farrier.model.node.snapshot import Pause


def pause(request: Request) -> Reply:
    """Pause the node. farrier continues to observe the node, but changes nothing."""
    assert isinstance(request.params, Because), "the table of actions declares this type"
    paused = Pause(request.params.reason, request.now)
    if request.node.paused is not None and request.node.paused.reason == paused.reason:
        return Accept(reason="the node is already paused")
    return Accept(reason=f"paused: {paused.reason}", to=with_fields(request.node, paused=paused))


def unpause(request: Request) -> Reply:
    """End the pause. All deadlines of the live workflow start again, because the workflow could not continue during the
    pause."""
    node = request.node
    if node.paused is None:
        return Accept(reason="the node was not paused")
    if node.workflow is None:
        return Accept(reason="unpaused", to=with_fields(node, paused=None))
    owning = tasks.OWNING.get(node.status) if node.workflow.memo.resumed else None
    writes = () if owning is None else tasks.reissue(node, owning, request.now)
    node = with_note(node, unpaused_at=request.now, resumed=False)
    return Accept(reason="unpaused", to=with_fields(node, paused=None), writes=writes)
