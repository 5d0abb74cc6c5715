"""Whether a resource accepts an action: the possible answers, and the words of a refusal. Pure.

`actions` uses it for nodes, and `kinds` for resources of all other kinds.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeAlias

import msgspec


class Allowed(msgspec.Struct, frozen=True):
    """The table of actions allows the action."""


class Later(msgspec.Struct, frozen=True):
    """The intent stays pending, because the state that does not accept it soon ends by itself."""

    reason: str


class Refused(msgspec.Struct, frozen=True):
    """The intent is rejected. `reason` names the states that would accept it."""

    reason: str


Answer: TypeAlias = Allowed | Later | Refused


def in_state(action: str, state: str, accepted: Collection[str], *, noun: str, instead: str = "") -> Allowed | Refused:
    """Whether a resource in this state accepts the action. `accepted` lists, in order, the states that accept it.
    `noun` names the resource, and `instead` the alternative."""
    if state in accepted:
        return Allowed()
    return refusal(action, f"in state {', '.join(accepted)}; this {noun} is {state}", instead)


def refusal(action: str, accepted: str, instead: str = "") -> Refused:
    """The refusal of an action that is accepted only in certain states."""
    return Refused(f"{action} is accepted {accepted}" + (f"; {instead}" if instead else ""))


def ended(noun: str) -> Refused:
    """The refusal of every action by a resource that has ended."""
    return Refused(f"this {noun} has ended")
