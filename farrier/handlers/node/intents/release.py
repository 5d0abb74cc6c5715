"""The response to intent `release`: lifts one condition that keeps a node out of service."""

from __future__ import annotations

from datetime import datetime

from msgspec.structs import replace

from farrier.handlers.node.changes import unproven_health, with_fields
from farrier.handlers.node.intents.reply import Accept, Reject, Reply, Request
from farrier.model.intents import params as p
from farrier.model.node import conditions
from farrier.model.node.conditions import Condition, Effect, Source
from farrier.model.node.layers import NodeStatus as N
from farrier.model.node.snapshot import Node

# Sources whose conditions farrier or an operator states once. Any other source would state its condition again at
# once, so a release lowers it to a note.
_STATED_ONCE = frozenset({Source.OPERATOR, Source.CLEANING, Source.WORKFLOW})


def release(request: Request) -> Reply:
    """Lift one condition. A quarantined node that nothing else keeps out of service returns to service, which requires
    proven health. In any other state, only the condition ends."""
    node, params = request.node, request.params
    assert isinstance(params, p.ReleaseParams), "the table of actions declares this type"
    found = _chosen(node, params, request.now)
    if isinstance(found, Reject):
        return found
    lifted = _without(node, found, request.now)
    said = f"{found.name} is released" + (f": {params.reason}" if params.reason else "")
    if node.status is not N.QUARANTINED or node.workflow is not None or node.deleting:
        return Accept(reason=said, to=lifted)
    if held := conditions.in_words(lifted.conditions):
        return Accept(reason=f"{said}; the node stays quarantined: {held}", to=lifted)
    if not node.ever_onboarded:
        return Accept(reason=f"{said}; the node stays quarantined until it is onboarded or deleted", to=lifted)
    unproven = unproven_health(lifted, request.now, request.config)
    if unproven is not None:
        return Reject(reason=f"release: the node is not healthy: {unproven}")
    return Accept(reason=f"{said}; the node is healthy", to=with_fields(lifted, status=N.ACTIVE, ever_active=True))


def _chosen(node: Node, params: p.ReleaseParams, now: datetime) -> Condition | Reject:
    """Return what the intent lifts. An intent without a key means the only hold."""
    liftable = tuple(each for each in node.conditions if _is_lifted(node, each, now))
    names = conditions.names(liftable)
    if params.key is None:
        holds = [each for each in liftable if each.source == Source.OPERATOR]
        if len(holds) == 1:
            return holds[0]
        if holds:
            several = conditions.names(holds)
            return Reject(
                reason=f"release: {len(holds)} holds keep the node out of service; give the key of one: {several}"
            )
        if liftable:
            return Reject(
                reason=f"release: no operator holds the node; to release {names}, give this name as key, and a reason"
            )
        return Reject(reason="release: no hold and no condition keeps the node out of service")
    found = next((each for each in liftable if each.name == params.key), None)
    if found is None:
        expected = f"expected one of: {names}" if names else "nothing does"
        return Reject(reason=f"release: nothing named {params.key} keeps the node out of service; {expected}")
    if found.source != Source.OPERATOR and params.reason is None:
        return Reject(reason=f"release: {found.name} is no operator's hold; give a reason to release it")
    return found


def _is_lifted(node: Node, condition: Condition, now: datetime) -> bool:
    """Return whether the intent may lift the condition: it keeps the node out of service, it is a note about a refused
    agent, or its monitor has not stated it again in time. A condition that ends with a workflow is not lifted while a
    workflow is live, or before the first successful onboarding."""
    if condition.source in conditions.ENDS_WITH_A_WORKFLOW and (node.workflow is not None or not node.ever_onboarded):
        return False
    ids = (conditions.ENROLMENT, conditions.AGENT_KEY)
    about_an_agent = condition.source == Source.IDENTITY and condition.id in ids
    return condition.effect is Effect.QUARANTINE or about_an_agent or condition.is_expired(now)


def _without(node: Node, condition: Condition, now: datetime) -> Node:
    """Return the node after the release. A fact stays as a note until its source ends it, unless its source is lost."""
    if condition.source in _STATED_ONCE or condition.effect is Effect.NOTE or condition.is_expired(now):
        return with_fields(node, conditions=tuple(each for each in node.conditions if each.key != condition.key))
    note = replace(condition, effect=Effect.NOTE, released=True)
    return with_fields(node, conditions=conditions.added(node.conditions, note))
