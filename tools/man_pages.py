"""Generates manual pages from the command line: one for farrier, and one for each of its commands.

`generate_docs` writes them to `docs/reference/man`, and the wheel installs them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

import farrier
from farrier import cli
from farrier.errors import ExitCode
from tools import command_line
from tools.command_line import Command

_SECTION = 1  # the manual section of commands
_ABOUT = "A single-writer state controller for bare-metal GPU nodes, on PostgreSQL."


def pages() -> Mapping[str, str]:
    """Return the text of each page, by the name of its file."""
    found = {"farrier.1": "".join(_overview())}
    for name, commands in groupby(command_line.commands(), lambda each: each.group):
        found[f"farrier-{name}.1"] = "".join(_page(name, list(commands)))
    return found


def _overview() -> Iterator[str]:
    yield from _head("farrier", _ABOUT)
    yield f".SH SYNOPSIS\n.B farrier\n{_roff('COMMAND [OPTIONS] [ARGUMENTS]')}\n.SH COMMANDS\n"
    for name, about in cli.COMMANDS.items():
        yield f".TP\n.BR {_roff(f'farrier-{name}')} (1)\n{_roff(about)}\n"
    yield from _exit_codes()
    yield ".SH ENVIRONMENT\n"
    for variable, meaning in (
        ("FARRIER_DATABASE_DSN", "URL of the database: postgresql://…"),
        ("FARRIER_CONFIG", "TOML file with settings."),
        ("FARRIER_CONTEXT", "Context to use. See farrier-context(1)."),
        (
            "FARRIER_<SECTION>_<KEY>",
            "Any other setting, such as FARRIER_HTTP_PORT: key `port` of section `http` of the settings file.",
        ),
    ):
        yield f".TP\n.B {_roff(variable)}\n{_roff(meaning)}\n"


def _page(name: str, commands: Sequence[Command]) -> Iterator[str]:
    yield from _head(f"farrier-{name}", cli.COMMANDS[name])
    alone = [command for command in commands if command.name == f"farrier {name}"]
    for command in alone:
        yield f".SH SYNOPSIS\n{_usage(command)}.SH DESCRIPTION\n{_help(command)}"
        yield from _parameters(command)
    if len(alone) < len(commands):
        yield ".SH COMMANDS\n"
    for command in commands:
        if command not in alone:
            yield f".SS {_roff(command.name)}\n{_usage(command)}.PP\n{_help(command)}"
            yield from _parameters(command)
    yield from _exit_codes()
    yield ".SH SEE ALSO\n.BR farrier (1)\n"


def _head(name: str, about: str) -> Iterator[str]:
    yield f'.TH {_roff(name.upper())} {_SECTION} "" "farrier {farrier.__version__}" "farrier manual"\n'
    yield f".SH NAME\n{_roff(name)} \\- {_roff(about)}\n"


def _usage(command: Command) -> str:
    return f".B {_roff(command.name)}\n{_roff(command.usage)}\n"


def _help(command: Command) -> str:
    return ".PP\n".join(f"{_roff(paragraph)}\n" for paragraph in command.paragraphs)


def _parameters(command: Command) -> Iterator[str]:
    for parameter in command.parameters:
        yield f".TP\n.B {_roff(parameter.signature)}\n{_roff(parameter.meaning) or '.br'}\n"


def _exit_codes() -> Iterator[str]:
    yield ".SH EXIT STATUS\n"
    for code in ExitCode:
        yield f".TP\n.B {code.value}\n{_roff(code.name.lower().replace('_', ' '))}\n"


def _roff(text: str) -> str:
    """Return the text with the characters escaped that roff would interpret."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace("\N{HORIZONTAL ELLIPSIS}", "...")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped
