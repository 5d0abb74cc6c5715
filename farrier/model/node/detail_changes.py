"""Changes of a node's details, as users write them: `site=ams1 label=row=b label=spare-`. Pure.

The command line and imports convert these changes to the parameters of intent `set`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from farrier.model.intents import actions, param_values
from farrier.model.intents.actions import Action
from farrier.model.node.details import DEFAULTS, REMOVABLE, RowDetails

_MAC = re.compile(r"[0-9A-Fa-f]{12}")
_SEPARATORS = re.compile(r"[:.-]")


def word(name: str) -> str:
    """Return the word by which users name a detail: for example, `label` for `labels`."""
    return name.removesuffix("s") if isinstance(DEFAULTS[name], Mapping | tuple) else name


WORDS: Mapping[str, str] = {word(name): name for name in DEFAULTS}
"""The name of each detail, by the word that users write for the detail."""


class DetailChanges(msgspec.Struct, frozen=True, kw_only=True):
    """Changes of a node. `labels` has the value of each label to set, and None for each label to remove."""

    values: Mapping[str, Any] = {}
    labels: Mapping[str, str | None] = {}
    unset: tuple[str, ...] = ()


def read(texts: Iterable[str]) -> DetailChanges:
    """Parse texts of the form WORD=VALUE. Raises ValueError with the word, the value and the expected form."""
    values: dict[str, Any] = {}
    labels: dict[str, str | None] = {}
    unset: list[str] = []
    for text in texts:
        given, _, value = text.partition("=")
        name = WORDS[given]
        if name == "labels":
            key, label = _label(value)
            _refuse_second(key in labels, f"label={key}")
            labels[key] = label
        elif isinstance(DEFAULTS[name], tuple):
            values[name] = [*values.get(name, []), *filter(None, value.split(","))]
        else:
            _refuse_second(name in values or name in unset, given)
            if not value and name in REMOVABLE:
                unset.append(name)
            else:
                values |= param_values.typed(actions.rules(Action.SET).fields, {name: value})
    for name, fault in faults(values):
        raise ValueError(f"{word(name)} {fault}")
    return DetailChanges(values=values, labels=labels, unset=tuple(unset))


def _label(text: str) -> tuple[str, str | None]:
    key, equals, value = text.partition("=")
    if equals and key:
        return key, value
    if not equals and key.endswith("-") and key != "-":
        return key.removesuffix("-"), None
    raise ValueError(f"expected label=KEY=VALUE, or label=KEY- to remove the label; got {f'label={text}'!r}")


def _refuse_second(again: bool, what: str) -> None:
    if again:
        raise ValueError(f"{what} is given twice")


def faults(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the detail and the fault of each value that the database would refuse for any node. The fault is a text
    that completes a sentence beginning with the name of the detail."""
    fields = actions.rules(Action.SET).fields
    for name, value in values.items():
        fault = param_values.fault(fields[name], value)
        if fault is not None:
            yield name, fault
        elif name == "macs":
            for mac in value:
                if canonical_mac(mac) is None:
                    yield (
                        name,
                        f"contains {mac!r}, which is not a MAC address; expected six bytes such as 02:00:00:00:00:01",
                    )


def canonical_mac(text: str) -> str | None:
    """Return the MAC address in the form that the database returns; None if the text is not a MAC address."""
    digits = _SEPARATORS.sub("", text).lower()
    if not _MAC.fullmatch(digits):
        return None
    return ":".join(digits[place : place + 2] for place in range(0, 12, 2))


def params(changes: DetailChanges, node: RowDetails) -> dict[str, Any]:
    """Return the parameters of intent `set` that make these changes; empty if the node already has all values. The node
    keeps labels that the changes do not name. `macs` are compared only if the view of the node contains MAC
    addresses."""
    found = {name: value for name, value in changes.values.items() if not _has(node, name, value)}
    labels = {**node.labels, **changes.labels}
    kept = {key: value for key, value in labels.items() if value is not None}
    if kept != node.labels:
        found["labels"] = kept
    unset = [name for name in changes.unset if getattr(node, name) is not None]
    return found | ({"unset": unset} if unset else {})


def _has(node: RowDetails, name: str, value: Any) -> bool:
    if name != "macs":
        return bool(getattr(node, name) == value)
    return set(getattr(node, name, ())) == {canonical_mac(mac) for mac in value} and hasattr(node, name)
