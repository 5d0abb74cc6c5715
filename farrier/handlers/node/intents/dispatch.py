"""Answers the pending intents of a node, in order of ID, up to and including the first that changes the node.

The table of actions (`model.actions`) decides whether an intent fits the node's states; the response to its action
decides the result. The handler passes the responses to `answer`. If only a transient state or a pause forbids an
intent, the intent stays pending. An intent whose answer needs a step also stays pending, with all later intents. Only
while farrier waits for the effect of a power action, the actions that overtake are answered first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import assert_never

from msgspec.structs import replace

from farrier.errors import RefusedByModel
from farrier.handlers.node.bmc import probing
from farrier.handlers.node.changes import (
    CALL_DEADLINE,
    Change,
    Decision,
    NodeServices,
    NodeStep,
    Outcome,
    Policy,
    transition,
)
from farrier.handlers.node.intents.alternatives import ends
from farrier.handlers.node.intents.reply import Accept, KeepPending, ReadFirst, Reject, Reply, Request, Respond
from farrier.handlers.node.workflow.failure import adoption_cut_short
from farrier.model.advice.recommended import Recommended
from farrier.model.intents import actions
from farrier.model.intents.acceptance import Allowed, Later, Refused
from farrier.model.intents.actions import Action
from farrier.model.intents.requests import IntentStatus
from farrier.model.loop.outcome import Step, Wait
from farrier.model.loop.runs import cause_of_intent
from farrier.model.maas.reading import UNUSED
from farrier.model.node.layers import TRANSIENT, Management, NodeStatus
from farrier.model.node.snapshot import Intent, Node
from farrier.model.node.writes import AnswerIntent, Write

ANSWERED = "answers an intent"
"""The reason of a run that only answers intents."""

# If two intents have the same action, and the action is in this set, the newer intent counts; the older intent is
# answered `superseded`.
_LAST_COUNTS = frozenset({Action.SET_BMC, Action.SET_POWER})


def answer(
    node: Node, now: datetime, config: Policy, responses: Mapping[Action, Respond]
) -> Decision | tuple[Write, ...]:
    """Answer the intents that can be answered now. A returned Change contains all answers, and changes the node as the
    last of these intents requires. A returned Wait contains answers and other writes, and is committed without a
    decision of the rules. A returned Step reads what the answer to the first intent depends on. A returned tuple
    contains only answers; they do not change the node, and are committed with the decision of the rules."""
    writes: list[Write] = []
    held = False
    for position, intent in enumerate(node.intents):
        if held and not actions.ACTIONS[intent.action].overtakes:
            continue
        reply = _reply(node, position, now, config, responses)
        if isinstance(reply, ReadFirst):
            if not writes:
                return _asking(node, intent, reply)
            break  # the earlier answers are committed before the step
        if isinstance(reply, KeepPending) and reply.to is None:
            if not _is_awaited(node, intent):
                break
            held = True
        writes += _answers(intent, reply)
        if isinstance(reply, Accept | KeepPending) and reply.to is not None:
            return _changed(node, intent, reply, reply.to, writes)
    if all(isinstance(write, AnswerIntent) for write in writes):
        return tuple(writes)
    return _written(writes)


def _answers(intent: Intent, reply: Accept | Reject | KeepPending | AnswerIntent | None) -> tuple[Write, ...]:
    match reply:
        case None | KeepPending():
            return ()
        case AnswerIntent():
            return (reply,)
        case Reject():
            return (AnswerIntent(intent.id, IntentStatus.REJECTED, reply.text),)
        case Accept():
            return (AnswerIntent(intent.id, IntentStatus.ACCEPTED, reply.reason), *reply.writes)
        case _ as never:
            assert_never(never)


def _written(writes: Iterable[Write]) -> Wait[Write]:
    return Wait(reason=ANSWERED, requeue_after=timedelta(0), writes=tuple(writes))


def _changed(node: Node, intent: Intent, reply: Accept | KeepPending, to: Node, writes: Iterable[Write]) -> Change:
    """Return the change that an intent requests, with the answers so far."""
    by = f" by {intent.requested_by}" if intent.requested_by else ""
    return transition(
        node,
        _made_way(node, intent, to) if node.management in TRANSIENT else to,
        reason=f"{reply.reason}{by}",
        cause=cause_of_intent(intent.id),
        writes=tuple(writes),
        source=reply.source,
    )


def _asking(node: Node, intent: Intent, ask: ReadFirst) -> NodeStep:
    """Return the step that reads and answers. If it is interrupted, the intent stays pending and is asked again."""

    async def act(services: NodeServices) -> Outcome:
        reply = await ask.act(services)
        writes = _answers(intent, reply)
        if isinstance(reply, Reject) or reply.to is None:
            return _written(writes)
        return _changed(node, intent, reply, reply.to, writes)

    return Step(name=ask.name, act=act, deadline=CALL_DEADLINE, reads_only=True)


def _made_way(node: Node, intent: Intent, to: Node) -> Node:
    """Return the node `to`, in which the step that this intent interrupted counts as having run."""
    if not actions.ACTIONS[intent.action].interrupts or node.management is not to.management:
        return to
    if to.management is Management.VERIFYING:
        return probing.interrupted(to)
    return adoption_cut_short(to, f"interrupted by intent {intent.id} ({intent.action})")


def _reply(
    node: Node, position: int, now: datetime, config: Policy, responses: Mapping[Action, Respond]
) -> Reply | AnswerIntent | None:
    """Return the reply to the intent at this position; None if the intent has to wait, and the answer itself if a newer
    intent supersedes it."""
    intent = node.intents[position]
    newer = _superseded_by(node, position) if intent.action in _LAST_COUNTS else None
    if newer is not None:
        return AnswerIntent(intent.id, IntentStatus.SUPERSEDED, f"by intent {newer}")
    is_deleted = node.status is NodeStatus.DELETED  # no intent can end the pause of a deleted node
    if node.paused is not None and not is_deleted and intent.action not in actions.ANSWERED_WHILE_PAUSED:
        return None
    return judged(node, intent, now, config, responses)


def judged(
    node: Node, intent: Intent, now: datetime, config: Policy, responses: Mapping[Action, Respond]
) -> Reply | None:
    """Return the reply to an intent as if no other intent came first; None if it has to wait. Of the intents that the
    reply recommends instead, only those remain that the node would accept. They cannot harm a machine that may be in
    use, unless the refused intent could."""
    reply = _judged(node, intent, now, config, responses)
    if not isinstance(reply, Reject):
        return reply
    fit = tuple(each for each in reply.instead if _fits(each, node, intent, now, config, responses))
    return replace(reply, instead=fit)


def _fits(
    each: Recommended, node: Node, asked: Intent, now: datetime, config: Policy, responses: Mapping[Action, Respond]
) -> bool:
    harms, allowed = (actions.is_destructive(it.action, it.params, node.workflow) for it in (each, asked))
    seen = node.maas
    is_free = seen is not None and seen.state in UNUSED and seen.fresh(now, config.observation_ttl)
    if harms and not (allowed or is_free):
        return False
    if {*each.fill} - {"reason"}:  # only the operator knows the values
        return not isinstance(_forbidden(node, each.action), Reject)
    params = {**each.params, **dict.fromkeys(each.fill, "a reason")}
    other = replace(asked, action=each.action, params=params)
    return not isinstance(_judged(node, other, now, config, responses), Reject)


def _judged(
    node: Node, intent: Intent, now: datetime, config: Policy, responses: Mapping[Action, Respond]
) -> Reply | None:
    forbidden = _forbidden(node, intent.action)
    if forbidden is not None:
        return forbidden if isinstance(forbidden, Reject) else None
    try:
        params = actions.decode(intent.action, intent.params)
    except RefusedByModel as error:
        return Reject(reason=str(error))
    return responses[intent.action](Request(node, intent, params, now, config))


def _forbidden(node: Node, action: Action) -> Reject | Later | None:
    """Return why the states of the node forbid the action; None if they allow it."""
    being_deleted = node.deleting and node.status is not NodeStatus.DELETED
    if being_deleted and action not in actions.ANSWERED_WHILE_DELETING:
        stop = Recommended(Action.CANCEL, when="to stop the deletion")
        return Reject(reason=f"{action}: the node is being deleted", instead=(stop,))
    verdict = actions.check(action, node.status, node.management, node.workflow)
    match verdict:
        case Allowed():
            return None
        case Later():
            return verdict
        case Refused():
            return Reject(reason=verdict.reason, instead=ends(node) if action is Action.DELETE else ())
        case _ as never:
            assert_never(never)


def _is_awaited(node: Node, intent: Intent) -> bool:
    """Return whether the power action of this intent was sent, and farrier only waits for its effect."""
    switching = node.bmc.switching
    return switching is not None and switching.intent == intent.id and switching.sent_at is not None


def _superseded_by(node: Node, position: int) -> int | None:
    """Return the newer intent with the same action, or None. If a step already acts for this intent, the result is also
    None, because the result of the step is its answer."""
    intent, switching = node.intents[position], node.bmc.switching
    if switching is not None and switching.intent == intent.id and not _is_awaited(node, intent):
        return None
    return next((other.id for other in node.intents[position + 1 :] if other.action is intent.action), None)
