"""Asks the controllers how they would answer intents: for a dry run, for the advice about a node, and for buttons."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Protocol

import msgspec

from farrier.bulk.run import Operations, Target
from farrier.errors import RefusedByModel
from farrier.model import why
from farrier.model.actions import ACTIONS, Action
from farrier.model.diagnosis import Patience
from farrier.model.edges import NODE
from farrier.model.foreseen import Foreseen, Verdict
from farrier.model.limits import Limits
from farrier.model.recommended import Recommended
from farrier.model.requests import Request
from farrier.model.views import NodeDetail, Page
from farrier.model.why import Why

# A controller answers within milliseconds. A page and `node why` wait shortly, because the table of actions has an
# answer, too; a dry run waits longer.
_SHORTLY = timedelta(seconds=1)
_DRY_RUN = timedelta(seconds=10)
# Values for the parameters that only the operator knows, if the answer does not depend on the value.
_ANY_VALUE = {"reason": "a reason"}


class Foresees(Protocol):
    """Asks how handlers would answer intents, as `protocols.Requests` does."""

    async def foresee(self, kind: str, asked: Sequence[Request], patience: timedelta) -> tuple[Foreseen | None, ...]:
        """Return the answer to each intent, or None if no controller answered."""


async def explained(
    requests: Foresees, page: Page[NodeDetail], limits: Limits, patience: Patience, period: timedelta
) -> Why:
    """Explain the node of a page. The advice only has intents that a controller would accept, if a controller
    answers."""
    (node,) = page.rows
    wanted = [each for each in why.candidates(node, page.now, limits, patience, period=period) if _is_known(each)]
    asked = [_request(node, each.action, {**each.params, **_values(each.fill)}) for each in wanted]
    told = await _told(requests, asked)
    rejected = [each for each, answer in zip(wanted, told, strict=True) if _is_rejected(answer)]
    return why.explain(node, page.now, limits, patience, period=period, accepts=lambda intent: intent not in rejected)


async def accepted(requests: Foresees, node: NodeDetail, actions: Iterable[Action]) -> list[Action]:
    """Return the actions that the node would not reject now. If an action has required parameters, the answer depends
    on their values, so nobody is asked about it."""
    wanted = list(actions)
    free = [action for action in wanted if not any(_is_required(action))]
    told = await _told(requests, [_request(node, action, {}) for action in free])
    rejected = {action for action, answer in zip(free, told, strict=True) if _is_rejected(answer)}
    return [action for action in wanted if action not in rejected]


async def of_targets(requests: Foresees, operations: Operations, targets: Sequence[Target]) -> list[Target]:
    """Return the targets of a dry run with the answers that the controllers would give."""
    asked = [
        msgspec.structs.replace(operations.request, resource=str(each.id), params=operations.params(each.id))
        for each in targets
    ]
    told = await requests.foresee(operations.request.kind, asked, _DRY_RUN) if asked else ()
    return [_with(target, answer) for target, answer in zip(targets, told, strict=True)]


def _with(target: Target, answer: Foreseen | None) -> Target:
    if answer is None:
        unasked = "no controller answered; this is the answer of the table of actions"
        return msgspec.structs.replace(target, delay=target.delay or ("" if target.refusal else unasked))
    refusal = answer.reason if answer.verdict is Verdict.REJECTED else ""
    return msgspec.structs.replace(
        target, refusal=refusal, delay=answer.reason if answer.verdict is Verdict.DEPENDS else ""
    )


async def _told(requests: Foresees, asked: Sequence[Request]) -> Sequence[Foreseen | None]:
    if not asked:
        return ()
    try:
        return await requests.foresee(NODE, asked, _SHORTLY)
    except RefusedByModel:  # a standby accepts no question, and the login may not be allowed to ask
        return [None] * len(asked)


def _request(node: NodeDetail, action: Action, params: dict[str, object]) -> Request:
    return Request(resource=str(node.id), action=action, params=params)


def _is_rejected(answer: Foreseen | None) -> bool:
    return answer is not None and answer.verdict is Verdict.REJECTED


def _is_known(intent: Recommended) -> bool:
    return _ANY_VALUE.keys() >= {*intent.fill}


def _values(fill: Sequence[str]) -> dict[str, object]:
    return {name: _ANY_VALUE[name] for name in fill}


def _is_required(action: Action) -> Iterable[bool]:
    spec = ACTIONS[action].params
    return (field.required for field in msgspec.structs.fields(spec)) if not spec.any_of else (True,)
