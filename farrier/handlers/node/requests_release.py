"""The response to intent `release`: lifts one cause that keeps a node out of service."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from farrier.handlers.node.moves import unproven_health, with_fields
from farrier.handlers.node.reply import Accept, Reject, Reply, Request
from farrier.model import conditions
from farrier.model import params as p
from farrier.model.conditions import Condition, Effect, Source
from farrier.model.node import Node, Quarantine
from farrier.model.status import NodeStatus as N

# Sources whose conditions are facts: farrier would state them again at once. A release lowers them to notes.
_FACTS = frozenset({Source.AGENT, Source.BMC, Source.IDENTITY})


class _Cause(msgspec.Struct, frozen=True):
    """Something that `release` can lift: a condition, or the stored cause of the quarantine."""

    name: str
    of: Condition | Quarantine

    @property
    def is_plain(self) -> bool:
        """Whether `release` lifts it without its name and a reason."""
        return isinstance(self.of, Quarantine) or self.of.source == Source.OPERATOR


def release(request: Request) -> Reply:
    """Lift one hold. A quarantined node that nothing else keeps out of service returns to service, which requires
    proven health. In any other state, only the hold ends."""
    node, params = request.node, request.params
    assert isinstance(params, p.Release), "the table of actions declares this type"
    found = _chosen(node, params)
    if isinstance(found, Reject):
        return found
    lifted = _without(node, found)
    said = f"{found.name} is released" + (f": {params.reason}" if params.reason else "")
    if node.status is not N.QUARANTINED or node.workflow is not None or node.deleting:
        return Accept(reason=said, to=lifted)
    if held := conditions.in_words(lifted.conditions):
        return Accept(reason=f"{said}; the node stays quarantined: {held}", to=lifted)
    if lifted.quarantine is not None:
        stays = f"{lifted.quarantine.cause}: {lifted.quarantine.reason}"
        return Accept(reason=f"{said}; the node stays quarantined: {stays}", to=lifted)
    if not node.ever_onboarded:
        return Accept(reason=f"{said}; the node stays quarantined until it is onboarded or deleted", to=lifted)
    unproven = unproven_health(lifted, request.now, request.config)
    if unproven is not None:
        return Reject(reason=f"release: the node is not healthy: {unproven}")
    return Accept(reason=f"{said}; the node is healthy", to=with_fields(lifted, status=N.ACTIVE, ever_active=True))


def _chosen(node: Node, params: p.Release) -> _Cause | Reject:
    """Return what the intent lifts. An intent without a key means the only hold."""
    causes = _causes(node)
    names = ", ".join(each.name for each in causes)
    if params.key is None:
        plain = [each for each in causes if each.is_plain]
        if len(plain) == 1:
            return plain[0]
        if plain:
            several = ", ".join(each.name for each in plain)
            return Reject(
                reason=f"release: {len(plain)} holds keep the node out of service; give the key of one: {several}"
            )
        if causes:
            return Reject(
                reason=f"release: no operator holds the node; to release {names}, give this name as key, and a reason"
            )
        return Reject(reason="release: no hold and no condition keeps the node out of service")
    found = next((each for each in causes if each.name == params.key), None)
    if found is None:
        expected = f"expected one of: {names}" if names else "nothing does"
        return Reject(reason=f"release: nothing named {params.key} keeps the node out of service; {expected}")
    if not found.is_plain and params.reason is None:
        return Reject(reason=f"release: {found.name} is no operator's hold; give a reason to release it")
    return found


def _causes(node: Node) -> tuple[_Cause, ...]:
    """Return everything that keeps the node out of service and can be lifted, and the notes about refused agents.
    A stored cause cannot be lifted while a workflow is live, because the workflow ends it."""
    can_end = node.quarantine is not None and node.workflow is None and node.ever_onboarded
    stored = (_Cause(str(node.quarantine.cause), node.quarantine),) if can_end and node.quarantine is not None else ()
    return (*(_Cause(each.name, each) for each in node.conditions if _is_lifted(each)), *stored)


def _is_lifted(condition: Condition) -> bool:
    return condition.effect is Effect.QUARANTINE or condition.id in (conditions.ENROLMENT, conditions.AGENT_KEY)


def _without(node: Node, cause: _Cause) -> Node:
    """Return the node after the release. A fact stays as a note until its source ends it."""
    if isinstance(cause.of, Quarantine):
        return with_fields(node, quarantine=None)
    if cause.of.source in _FACTS and cause.of.effect is Effect.QUARANTINE:
        note = replace(cause.of, effect=Effect.NOTE, released=True)
        return with_fields(node, conditions=conditions.added(node.conditions, note))
    return with_fields(node, conditions=tuple(each for each in node.conditions if each.key != cause.of.key))
