"""Generates `docs/reference/commands.md`, the page of all commands with their arguments and options."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import groupby

from farrier import cli
from tools import command_line
from tools.command_line import Command, Parameter

_SHARED = "Which database"
"""The group of options that nearly every command has. The page has them once."""
_INTRODUCTION = """# Commands

This page lists all commands with their arguments and options. `farrier COMMAND --help` and the manual pages have the
same texts. [The command line](../operate/bulk.md) shows how to use the commands. All commands have the same
[exit codes](errors.md#exit-codes).
"""


def page() -> str:
    """Return the whole page."""
    return "\n".join(_page())


def _page() -> Iterator[str]:
    found = list(command_line.commands())
    yield _INTRODUCTION
    yield from _which_database(found)
    for name, commands in groupby(found, lambda each: each.group):
        yield f"## farrier {name}\n\n{_text(cli.COMMANDS[name])}\n"
        for command in commands:
            yield from _command(command, alone=command.name == f"farrier {name}")


def _which_database(found: Iterable[Command]) -> Iterator[str]:
    shared = {parameter: None for command in found for parameter in command.parameters if parameter.panel == _SHARED}
    yield f"## {_SHARED}\n\nIf a command needs a database or settings, it also has these options:\n"
    yield _table(shared)


def _command(command: Command, *, alone: bool) -> Iterator[str]:
    if not alone:
        yield f"### {command.name}\n"
        yield f"{_text(command.paragraphs[0])}\n"
    yield f"`{command.name} {command.usage}`\n"
    yield from (f"{_text(paragraph)}\n" for paragraph in command.paragraphs[1:])
    if own := [each for each in command.parameters if each.panel != _SHARED and each.signature != "--help"]:
        yield _table(own)
    if any(each.panel == _SHARED for each in command.parameters):
        yield f"This command also accepts the [database options](#{_SHARED.lower().replace(' ', '-')}).\n"


def _table(parameters: Iterable[Parameter]) -> str:
    rows = "".join(f"| {_code(each.signature)} | {_text(each.meaning)} |\n" for each in parameters)
    return f"| argument or option | meaning |\n|---|---|\n{rows}"


def _code(text: str) -> str:
    return f"`{text}`".replace("|", r"\|")


def _text(text: str) -> str:
    """Return the text in a form that Markdown shows unchanged."""
    return re.sub(r"([*<>|])", r"\\\1", text)
