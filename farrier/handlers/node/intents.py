"""Answers the pending intents of a node, in order of ID, up to and including the first that changes the node.

The table of actions (`model.actions`) decides whether an intent fits the node's states; the response to its action
decides the result. The handler passes the responses to `answer`. If only a transient state or a pause forbids an
intent, the intent stays pending. An intent whose answer needs a step also stays pending, with all later intents.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import assert_never

from farrier.errors import RefusedByModel
from farrier.handlers.node import probing
from farrier.handlers.node.failing import adoption_cut_short
from farrier.handlers.node.moves import Change, Policy, transition
from farrier.handlers.node.reply import Accept, Hold, Reject, Reply, Request, Respond
from farrier.model import actions
from farrier.model.acceptance import Allowed, Later, Refused
from farrier.model.actions import Action
from farrier.model.management import TRANSIENT, Management
from farrier.model.node import Intent, Node
from farrier.model.outcome import Wait
from farrier.model.requests import IntentStatus
from farrier.model.runs import cause_of_intent
from farrier.model.status import NodeStatus
from farrier.model.writes import AnswerIntent, Write

ANSWERED = "answers an intent"
"""The reason of a run that only answers intents."""

# If two intents have the same action, and the action is in this set, the newer intent counts; the older intent is
# answered `superseded`.
_LAST_COUNTS = frozenset({Action.SET_BMC, Action.SET_POWER})


def answer(
    node: Node, now: datetime, config: Policy, responses: Mapping[Action, Respond]
) -> Change | Wait[Write] | tuple[Write, ...]:
    """Answer the intents that can be answered now. A returned Change contains all answers, and changes the node as the
    last of these intents requires. A returned Wait contains answers and other writes, and is committed without a
    decision of the rules. A returned tuple contains only answers; they do not change the node, and are committed with
    the decision of the rules."""
    writes: list[Write] = []
    for position, intent in enumerate(node.intents):
        newer = _superseded_by(node, position) if intent.action in _LAST_COUNTS else None
        if newer is not None:
            writes.append(AnswerIntent(intent.id, IntentStatus.SUPERSEDED, f"by intent {newer}"))
            continue
        reply = _reply(node, intent, now, config, responses)
        match reply:
            case None:
                continue
            case Reject():
                writes.append(AnswerIntent(intent.id, IntentStatus.REJECTED, reply.reason))
                continue
            case Hold(to=None):
                break
            case Hold():
                pass
            case Accept():
                writes += [AnswerIntent(intent.id, IntentStatus.ACCEPTED, reply.reason), *reply.writes]
            case _ as never:
                assert_never(never)
        if reply.to is not None:
            by = f" by {intent.requested_by}" if intent.requested_by else ""
            return transition(
                node,
                _made_way(node, intent, reply.to) if node.management in TRANSIENT else reply.to,
                reason=f"{reply.reason}{by}",
                cause=cause_of_intent(intent.id),
                writes=tuple(writes),
                source=reply.source,
            )
    if all(isinstance(write, AnswerIntent) for write in writes):
        return tuple(writes)
    return Wait(reason=ANSWERED, requeue_after=timedelta(0), writes=tuple(writes))


def _made_way(node: Node, intent: Intent, to: Node) -> Node:
    """Return the node `to`, with a record that this intent interrupted the node's step. Without this record, the next
    step would begin as if the interrupted step had not run."""
    if not actions.ACTIONS[intent.action].interrupts or node.management is not to.management:
        return to
    if to.management is Management.VERIFYING:
        return probing.interrupted(to)
    return adoption_cut_short(to, f"interrupted by intent {intent.id} ({intent.action})")


def _reply(
    node: Node, intent: Intent, now: datetime, config: Policy, responses: Mapping[Action, Respond]
) -> Reply | None:
    """Return the reply to one intent; None if the intent has to wait."""
    is_deleted = node.status is NodeStatus.DELETED  # no intent can end the pause of a deleted node
    if node.paused is not None and not is_deleted and intent.action not in actions.ANSWERED_WHILE_PAUSED:
        return None
    being_deleted = node.deleting and not is_deleted
    if being_deleted and intent.action not in _ANSWERED_WHILE_DELETING:
        return Reject(reason=f"{intent.action}: the node is being deleted; to stop the deletion, submit cancel")
    verdict = actions.check(intent.action, node.status, node.management, node.workflow)
    match verdict:
        case Later():
            return None
        case Refused():
            return Reject(reason=verdict.reason)
        case Allowed():
            pass
        case _ as never:
            assert_never(never)
    try:
        params = actions.decode(intent.action, intent.params)
    except RefusedByModel as error:
        return Reject(reason=str(error))
    return responses[intent.action](Request(node, intent, params, now, config))


def _superseded_by(node: Node, position: int) -> int | None:
    """Return the newer intent with the same action, or None. If a step already acts for this intent, the result is also
    None, because the result of the step is its answer."""
    intent, switching = node.intents[position], node.bmc.switching
    if switching is not None and switching.intent == intent.id:
        return None
    return next((other.id for other in node.intents[position + 1 :] if other.action is intent.action), None)


_ANSWERED_WHILE_DELETING = frozenset({Action.CANCEL, Action.DELETE, Action.PAUSE, Action.UNPAUSE, Action.RESUME})
