"""The possible answers to the question whether a resource accepts an action, and the texts of refusals. Pure.

Module `actions` uses these answers for nodes, and `kinds` uses them for resources of all other kinds.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeAlias

import msgspec


class Allowed(msgspec.Struct, frozen=True):
    """The table of actions allows the action in this state."""


class Later(msgspec.Struct, frozen=True):
    """The intent stays pending. The current state does not accept it, but this state soon ends by itself."""

    reason: str


class Refused(msgspec.Struct, frozen=True):
    """The intent is rejected. `reason` names the states that would accept it."""

    reason: str


Answer: TypeAlias = Allowed | Later | Refused


def in_state(action: str, state: str, accepted: Collection[str], *, noun: str, instead: str = "") -> Allowed | Refused:
    """Return whether a resource in this state accepts the action. `accepted` lists the accepting states in order.
    `noun` names the resource, and `instead` names the alternative action."""
    if state in accepted:
        return Allowed()
    return refusal(action, f"in state {', '.join(accepted)}; this {noun} is {state}", instead)


def refusal(action: str, accepted: str, instead: str = "") -> Refused:
    """Return the refusal of an action that the resource accepts only in certain states."""
    return Refused(f"{action} is accepted {accepted}" + (f"; {instead}" if instead else ""))


def ended(noun: str) -> Refused:
    """Return the refusal of every action by a resource that has ended."""
    return Refused(f"this {noun} has ended")
