"""The response to intent `set`. This intent changes registration data, except values that a live workflow uses.

The database refused malformed values when the intent was inserted; registrations are checked by the same functions. The
commit writes a history row for each changed value, because only the commit reads the former values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from farrier.handlers.node.changes import with_fields
from farrier.handlers.node.intents.reply import Accept, Reject, Reply, Request
from farrier.model.intents.params import Unset
from farrier.model.loop.runs import cause_of_intent
from farrier.model.node.details import DETAILS
from farrier.model.node.snapshot import Node
from farrier.model.node.writes import SetDetails

# The details that also change in the returned node. The write `SetDetails` stores all changed details.
_OF_THE_NODE = ("site", "model", "agentless", "auto_manage")


def set_details(request: Request) -> Reply:
    """Change only the given details."""
    params = request.params
    assert isinstance(params, Unset), "the table of actions declares this type"
    given = request.intent.params
    named = (*(name for name in DETAILS if name in given), *(params.unset or ()))
    if len(named) > len(set(named)):
        return Reject(reason="set: a field is both set and unset; name each field once")
    if request.intent.conflict is not None:
        return Reject(reason=f"set: {request.intent.conflict}")
    used = _used(request.node, named)
    if used is not None:
        return Reject(reason=f"set: {used}")
    by = f" by {request.intent.requested_by}" if request.intent.requested_by else ""
    write = SetDetails(params=given, cause=cause_of_intent(request.intent.id), reason=f"set {', '.join(named)}{by}")
    return Accept(
        reason=f"set {', '.join(named)}", to=_changed(request.node, given, params.unset or ()), writes=(write,)
    )


def _used(node: Node, named: tuple[str, ...]) -> str | None:
    """Return which workflow uses a value, so that the value cannot change; None if no workflow uses it."""
    for name in named:
        if not DETAILS[name].free_when.fits(node.workflow):
            live = node.live
            used_by = f"{live.kind} {live.id} ({live.mode}, {live.status})"
            return f"{name} is used by {used_by} of this node; change {name} after it has ended"
    return None


def _changed(node: Node, given: Mapping[str, Any], unset: tuple[str, ...]) -> Node:
    values = {**given, **dict.fromkeys(unset)}
    changed = with_fields(node, **{name: value for name, value in values.items() if name in _OF_THE_NODE})
    if changed.auto_manage or node.bmc.asked_at is not None:
        return changed
    return with_fields(changed, bmc=replace(node.bmc, pending_at=None))  # no further verification follows
