"""Asks the controllers how they would answer intents: for dry runs, confirmations, advice and pages.

Only if no controller answers, the table of actions does, and the preview says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, TypeAlias

import msgspec

from farrier.bulk.run import Operations, Target
from farrier.errors import RefusedByModel
from farrier.model.advice import explanation
from farrier.model.advice.diagnosis import Patience
from farrier.model.advice.explanation import Why
from farrier.model.advice.recommended import Recommended
from farrier.model.intents.params import ParamsRules
from farrier.model.intents.preview import Foreseen, PreviewVerdict
from farrier.model.intents.requests import IntentRequest
from farrier.model.node.layers import NODE
from farrier.model.node.limits import Limits
from farrier.model.views.nodes import NodeDetail, Page
from farrier.protocols import Requests

# A controller answers within milliseconds, or after its next poll if notifications do not arrive. A page and `node why`
# wait shortly, because the table of actions has an answer, too. A person who has to confirm waits longer, and a dry run
# waits longest.
SHORTLY = timedelta(seconds=1.5)
CONFIRMATION = timedelta(seconds=3)
DRY_RUN = timedelta(seconds=10)
# How many resources a page asks the controllers about before the operator submits its form. A controller answers about
# 300 questions a second.
MOST_PREVIEWED = 200

# Parameters with which a question is asked before an operator has chosen them.
_Trial: TypeAlias = Mapping[str, Any]
# Values for the parameters that only the operator knows, if the answer does not depend on the value.
_ANY_VALUE = {"reason": "a reason"}

_RANKS = {PreviewVerdict.ACCEPTED: 0, PreviewVerdict.DEPENDS: 1, PreviewVerdict.REJECTED: 2}

UNTOLD = "no controller answered; this is the answer of the table of actions"


async def told(
    requests: Requests, asked: Sequence[IntentRequest], patience: timedelta = SHORTLY
) -> Sequence[Foreseen | None]:
    """Return how a controller would answer each of these intents of one kind, or None if none answered."""
    if not asked:
        return ()
    try:
        return await requests.foresee(asked[0].kind, asked, patience)
    except RefusedByModel:  # a standby accepts no question, and the login may not be allowed to ask
        return [None] * len(asked)


async def explained(
    requests: Requests, page: Page[NodeDetail], limits: Limits, patience: Patience, period: timedelta
) -> Why:
    """Explain the node of a page. The advice only has intents that a controller would accept, if a controller
    answers."""
    (node,) = page.rows
    candidates = explanation.candidates(node, page.now, limits, patience, period=period)
    wanted = [each for each in candidates if _is_known(each)]
    asked = [_request(NODE, node.id, each.action, {**each.params, **_values(each.fill)}) for each in wanted]
    answers = await told(requests, asked)
    rejected = [each for each, answer in zip(wanted, answers, strict=True) if _is_rejected(answer)]
    return explanation.explain(
        node, page.now, limits, patience, period=period, accepts=lambda intent: intent not in rejected
    )


class Possibility(msgspec.Struct, frozen=True):
    """The question whether a resource would accept an action with any parameters. `schema` are the rules of these
    parameters. `is_refused` is true if the table of actions refuses the action, whatever its parameters are."""

    id: int
    action: str
    schema: ParamsRules
    is_refused: bool = False

    @property
    def is_open(self) -> bool:
        """Whether the answer depends on a value that only the operator knows, so that nobody is asked."""
        return not _plain(self.schema)


async def possible(
    requests: Requests, kind: str, wanted: Sequence[Possibility], patience: timedelta = SHORTLY
) -> Sequence[Foreseen | None]:
    """Return how a controller would answer each action with the most favourable parameters: `rejected` if it would
    reject the action with all of them. None if no controller answered, and if the answer is open."""
    first = await _best(requests, kind, [(each, _plain(each.schema)) for each in wanted], patience)
    refused = [number for number, answer in enumerate(first) if _is_rejected(answer)]
    again = [(wanted[number], _flagged(wanted[number].schema)) for number in refused]
    found = list(first)
    for number, answer in zip(refused, await _best(requests, kind, again, patience), strict=True):
        each, refusal = wanted[number], first[number]
        may_differ = not each.is_refused and _is_free(each.schema)
        if refusal is not None and (
            may_differ or (answer is not None and answer.verdict is not PreviewVerdict.REJECTED)
        ):
            found[number] = Foreseen(PreviewVerdict.DEPENDS, f"depends on the parameters: {refusal.reason}")
    return found


async def _best(
    requests: Requests, kind: str, wanted: Sequence[tuple[Possibility, Sequence[_Trial]]], patience: timedelta
) -> Sequence[Foreseen | None]:
    """Return the most favourable answer to each action with any of its trials."""
    asked = [_request(kind, each.id, each.action, trial) for each, tried in wanted for trial in tried]
    answers = iter(await told(requests, asked, patience))
    return [_most_favourable([next(answers) for _ in tried]) for _, tried in wanted]


def _most_favourable(answers: Sequence[Foreseen | None]) -> Foreseen | None:
    if None in answers:
        return None
    known = [answer for answer in answers if answer is not None]
    return min(known, key=lambda answer: _RANKS[answer.verdict], default=None)


async def of_targets(requests: Requests, operations: Operations, targets: Sequence[Target]) -> list[Target]:
    """Return the targets of a dry run with the answers that the controllers would give."""
    return [
        target if target.is_told or target.refusal else msgspec.structs.replace(target, delay=target.delay or UNTOLD)
        for target in await confirmed(requests, operations, targets, DRY_RUN)
    ]


async def confirmed(
    requests: Requests, operations: Operations, targets: Sequence[Target], patience: timedelta = CONFIRMATION
) -> list[Target]:
    """Return the targets with the answers of the controllers, for an operator who confirms the action. Targets about
    which no controller answered keep the answer of the table of actions."""
    asked = [
        msgspec.structs.replace(operations.request, resource=str(each.id), params=operations.params(each.id))
        for each in targets
    ]
    return _with(targets, await told(requests, asked, patience))


async def previewed(
    requests: Requests, kind: str, action: str, schema: ParamsRules, targets: Sequence[Target]
) -> list[Target]:
    """Return the targets with the answers of the controllers, before an operator has chosen the parameters. If there
    are many targets, the controllers are not asked."""
    if len(targets) > MOST_PREVIEWED:
        return [*targets]
    wanted = [Possibility(each.id, action, schema, bool(each.refusal)) for each in targets]
    return _with(targets, await possible(requests, kind, wanted))


def _with(targets: Sequence[Target], answers: Sequence[Foreseen | None]) -> list[Target]:
    return [
        target
        if answer is None
        else msgspec.structs.replace(
            target,
            refusal=answer.reason if answer.verdict is PreviewVerdict.REJECTED else "",
            delay=answer.reason if answer.verdict is PreviewVerdict.DEPENDS else "",
            is_told=True,
        )
        for target, answer in zip(targets, answers, strict=True)
    ]


def who(targets: Sequence[Target]) -> str:
    """Return who gave the answers of a preview."""
    by = {target.is_told for target in targets}
    return " and ".join(
        name for is_told, name in ((True, "the controllers"), (False, "the table of actions")) if is_told in by
    )


def note(targets: Sequence[Target], schema: ParamsRules, *, is_dry_run: bool) -> str:
    """Return why the answers of a preview are not those of controllers. Empty if they are."""
    untold = sum(not target.is_told for target in targets)
    if not untold:
        return ""
    is_unasked = len(targets) > MOST_PREVIEWED or not _plain(schema)
    if is_unasked and not is_dry_run:
        return "this preview has the answers of the table of actions; a dry run asks the controllers"
    whom = f" for {untold} of {len(targets)}" if untold < len(targets) else ""
    return f"no controller answered{whom}; the preview has the answers of the table of actions instead"


def _request(kind: str, id_: int, action: str, params: Mapping[str, object]) -> IntentRequest:
    return IntentRequest(kind=kind, resource=str(id_), action=action, params=params)


def _is_rejected(answer: Foreseen | None) -> bool:
    return answer is not None and answer.verdict is PreviewVerdict.REJECTED


def _is_known(intent: Recommended) -> bool:
    return _ANY_VALUE.keys() >= {*intent.fill}


def _values(fill: Sequence[str]) -> dict[str, object]:
    return {name: _ANY_VALUE[name] for name in fill}


def _plain(schema: ParamsRules) -> tuple[_Trial, ...]:
    """Return the required parameters, once with each choice. Empty if the answer depends on a value that only the
    operator knows."""
    if schema.any_of:
        return ()
    found: list[_Trial] = [{}]
    for name, field in schema.fields.items():
        if field.required:
            values = field.enum or ((_ANY_VALUE[name],) if name in _ANY_VALUE else ())
            found = [{**each, name: value} for each in found for value in values]
    return tuple(found)


def _is_free(schema: ParamsRules) -> bool:
    """Return whether another value of an optional parameter could change the answer to each trial."""
    return any(
        not field.required and field.type != "boolean" and name not in _ANY_VALUE
        for name, field in schema.fields.items()
    )


def _flagged(schema: ParamsRules) -> tuple[_Trial, ...]:
    """Return the parameters of `_plain` with each flag, and with all flags."""
    flags = [name for name, field in schema.fields.items() if field.type == "boolean"]
    sets = [(flag,) for flag in flags] + ([tuple(flags)] if len(flags) > 1 else [])
    return tuple({**each, **_with_flags(schema, chosen)} for each in _plain(schema) for chosen in sets)


def _with_flags(schema: ParamsRules, flags: tuple[str, ...]) -> _Trial:
    needed = {schema.needs[flag] for flag in flags if flag in schema.needs}
    return dict.fromkeys(flags, True) | {name: _ANY_VALUE[name] for name in needed if name in _ANY_VALUE}
