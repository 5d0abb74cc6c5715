"""Generates `docs/reference/commands/`: a page for each command of `farrier`, and an index with the common options."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from farrier import cli
from tools import command_line
from tools.command_line import Command, Parameter

COMMON = ("Which nodes", "Which changes", "How to submit", "Output", "Which database")
"""The groups of options that several commands have. The index has them once, and commands link to them."""
_BAR = r"\|"  # in a table, also within code
_INTRODUCTION = """# Commands

Each page has one command of `farrier` with its arguments and options. `farrier COMMAND --help` and the manual pages
have the same texts. [Many nodes](../../operate/bulk.md) shows how to use the commands, and all of them end with the
same [exit codes](../errors.md#exit-codes).
"""


def pages() -> Mapping[str, str]:
    """Return the text of each page, by the name of its file."""
    found = list(command_line.commands())
    common = {panel: _of(panel, found) for panel in COMMON}
    written = {"README.md": "\n".join(_index(common))}
    for name, commands in groupby(found, lambda each: each.group):
        written[f"{name}.md"] = "\n".join(_page(name, commands, common))
    return written


def _of(panel: str, commands: Iterable[Command]) -> Sequence[Parameter]:
    """Return the options of a group that the commands have, each once."""
    return list(dict.fromkeys(each for command in commands for each in command.parameters if each.panel == panel))


def _index(common: Mapping[str, Sequence[Parameter]]) -> Iterator[str]:
    yield _INTRODUCTION
    rows = "".join(f"| [farrier {name}]({name}.md) | {_text(about)} |\n" for name, about in cli.COMMANDS.items())
    yield f"| command | what it does |\n|---|---|\n{rows}"
    for panel, options in common.items():
        yield f"## {panel}\n"
        yield _table(options)


def _page(name: str, commands: Iterable[Command], common: Mapping[str, Sequence[Parameter]]) -> Iterator[str]:
    yield f"# farrier {name}\n\n{_text(cli.COMMANDS[name])}\n"
    for command in commands:
        if command.name != f"farrier {name}":
            yield f"## {command.name}\n"
            yield f"{_text(command.paragraphs[0])}\n"
        yield f"`{command.name} {command.usage}`\n"
        yield from (f"{_text(paragraph)}\n" for paragraph in command.paragraphs[1:])
        if own := [each for each in command.parameters if each.panel not in common and each.signature != "--help"]:
            yield _table(own)
        if shared := "; ".join(_links(command, common)):
            yield f"Common options: {shared}.\n"


def _links(command: Command, common: Mapping[str, Sequence[Parameter]]) -> Iterator[str]:
    """Yield a link for each common group of options. If a command has only a part of a group, it lists this part."""
    for panel, options in common.items():
        if has := _of(panel, [command]):
            link = f"[{panel.lower()}](README.md#{panel.lower().replace(' ', '-')})"
            part = "" if set(has) == set(options) else " (" + ", ".join(f"`{each.signature}`" for each in has) + ")"
            yield link + part


def _table(parameters: Iterable[Parameter]) -> str:
    rows = "".join(f"| `{each.signature.replace('|', _BAR)}` | {_text(each.meaning)} |\n" for each in parameters)
    return f"| argument or option | meaning |\n|---|---|\n{rows}"


def _text(text: str) -> str:
    """Return the text in a form that Markdown shows unchanged."""
    return re.sub(r"([*<>|])", r"\\\1", text)
