"""Advice to an operator as data: what a person does outside farrier, and intents that the node accepts.

`text` is the only place that turns an intent of an advice into words. `farrier.model.advice.choice` chooses the advice
about a node, and `farrier.model.node.failures` has the advice for each failure. Pure.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from farrier.model.intents.actions import Action
from farrier.model.loop.outcome import EndsBy

# The beginning of a `when` that names a purpose, not a condition.
_PURPOSE = "to "


class Recommended(msgspec.Struct, frozen=True, omit_defaults=True):
    """An intent to submit. `fill` names the parameters whose values only the operator knows. `when` completes the
    recommendation, for example "if the machine was replaced" or "to retry at once"."""

    action: Action
    params: Mapping[str, Any] = {}
    fill: tuple[str, ...] = ()
    when: str = ""


class Advice(msgspec.Struct, frozen=True, omit_defaults=True):
    """What ends a wait: `todo` is the work of a person outside farrier, and names no intent; `intents` are the intents
    that follow, of which the operator chooses one; `wait` is what ends the wait without a person."""

    todo: str = ""
    intents: tuple[Recommended, ...] = ()
    wait: str = ""

    @property
    def ends_by(self) -> EndsBy:
        """What ends the wait."""
        return EndsBy.PERSON if self.todo or self.intents else EndsBy.ITSELF


def submit(*actions: Action) -> tuple[Recommended, ...]:
    """Return the intents with these actions, without parameters."""
    return tuple(map(Recommended, actions))


def text(advice: Advice) -> str:
    """Return the advice as one line."""
    if not advice.todo and not advice.intents:
        return f"wait: {advice.wait}" if advice.wait else ""
    if not advice.intents:
        return advice.todo
    choices = alternatives(advice.intents)
    return f"{advice.todo}; then submit {choices}" if advice.todo else f"submit {choices}"


def alternatives(intents: Sequence[Recommended]) -> str:
    """Return the intents as a choice."""
    *others, last = map(_in_words, intents)
    return f"{', '.join(others)} or {last}" if others else last


def command(advice: Advice, node: str) -> str | None:
    """Return the command that carries out the advice; None unless exactly one intent does, without open parameters and
    without a condition."""
    if len(advice.intents) != 1:
        return None
    (intent,) = advice.intents
    is_open = intent.fill or (intent.when and not intent.when.startswith(_PURPOSE))
    if is_open:
        return None
    return " ".join(("farrier node", intent.action.replace("_", "-"), shlex.quote(node), *_options(intent.params)))


def _options(params: Mapping[str, Any]) -> list[str]:
    options = []
    for name, value in params.items():
        option = f"--{name.replace('_', '-')}"
        options += [option] if value is True else [option, shlex.quote(str(value))]
    return options


def _in_words(intent: Recommended) -> str:
    given = [
        f"{name}: {str(value).lower() if isinstance(value, bool) else value}" for name, value in intent.params.items()
    ]
    given += [f"{'an' if name[0] in 'aeiou' else 'a'} {name.replace('_', ' ')}" for name in intent.fill]
    params = f" with {' and '.join(given)}" if given else ""
    return f"{intent.action}{params}{f' {intent.when}' if intent.when else ''}"
