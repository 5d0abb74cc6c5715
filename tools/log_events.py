"""Reads every event that farrier logs from the source code. Names of events are constants, so the list is complete.

`tools.generate_docs` uses the events for the table in docs/reference/logs.md, and a test checks them for secrets in
the log. Events of simulations and commands are omitted, because they are not in the log of a service.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

FARRIER = Path(__file__).parents[1] / "farrier"

_LEVELS = ("debug", "info", "warning", "error", "exception", "critical")
_LOGGERS = {"log", "_log", "logger"}
_NAME = re.compile(r"[a-z]+([._][a-z]+)+")
_NOT_THE_SERVICE = ("sim", "cli")


class LogEvent(msgspec.Struct, frozen=True, order=True):
    """An event: its name, its levels, and the keys of its lines."""

    name: str
    levels: tuple[str, ...]
    keys: tuple[str, ...]


def events() -> list[LogEvent]:
    """Return all events by name."""
    found: dict[str, list[LogEvent]] = {}
    for path in sorted(FARRIER.rglob("*.py")):
        if path.relative_to(FARRIER).parts[0] not in _NOT_THE_SERVICE:
            for event in _events_of(path):
                found.setdefault(event.name, []).append(event)
    return [_merged(name, same) for name, same in sorted(found.items())]


def _merged(name: str, same: list[LogEvent]) -> LogEvent:
    levels = {level for event in same for level in event.levels}
    keys = dict.fromkeys(key for event in same for key in event.keys)
    return LogEvent(name, tuple(level for level in _LEVELS if level in levels), tuple(keys))


def _events_of(path: Path) -> Iterator[LogEvent]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        levels, name = _levels(node.func), node.args[0]
        if levels and isinstance(name, ast.Constant) and _NAME.fullmatch(str(name.value)):
            keys = tuple("exception" if word.arg == "exc_info" else str(word.arg) for word in node.keywords)
            yield LogEvent(str(name.value), levels, keys)


def _levels(called: ast.expr) -> tuple[str, ...]:
    match called:
        case ast.Attribute(value=ast.Name(id=logger), attr=level) if logger in _LOGGERS and level in _LEVELS:
            return (level,)
        case ast.Name(id="level"):  # the line above has chosen one of these
            return ("warning", "error")
        case _:
            return ()
