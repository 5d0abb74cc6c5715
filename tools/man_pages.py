"""Generates manual pages from the command line: one for farrier, and one for each of its commands.

`generate_docs` writes them to `docs/man`, and the wheel installs them.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import typer

import farrier
from farrier import cli
from farrier.errors import ExitCode

if TYPE_CHECKING:
    from typer import _click  # typer has no public names for its classes

_SECTION = 1  # commands
_ABOUT = "A single-writer state controller for bare-metal GPU nodes, on PostgreSQL."


def pages() -> Mapping[str, str]:
    """The text of each page, by the name of its file."""
    found = {"farrier.1": "".join(_overview())}
    for name, about in cli.COMMANDS.items():
        command = typer.main.get_command(cli.load(name))
        found[f"farrier-{name}.1"] = "".join(_page(f"farrier {name}", command, about))
    return found


def _overview() -> Iterator[str]:
    yield from _head("farrier", _ABOUT)
    yield f".SH SYNOPSIS\n.B farrier\n{_roff('COMMAND [OPTIONS] [ARGUMENTS]')}\n.SH COMMANDS\n"
    for name, about in cli.COMMANDS.items():
        yield f".TP\n.BR {_roff(f'farrier-{name}')} (1)\n{_roff(about)}\n"
    yield from _exit_codes()
    yield ".SH ENVIRONMENT\n"
    for variable, meaning in (
        ("FARRIER_DATABASE_DSN", "PostgreSQL to use, as a postgresql:// URL."),
        ("FARRIER_CONFIG", "TOML file with settings."),
        ("FARRIER_CONTEXT", "Context to use; see farrier-context(1)."),
        ("FARRIER_SECTION_KEY", "Any other setting: KEY of the table SECTION of the settings file."),
    ):
        yield f".TP\n.B {_roff(variable)}\n{_roff(meaning)}\n"


def _page(name: str, command: _click.Command, about: str) -> Iterator[str]:
    yield from _head(name.replace(" ", "-"), about)
    inner: Mapping[str, _click.Command] = getattr(command, "commands", {})
    if not inner or getattr(command, "invoke_without_command", False):
        yield f".SH SYNOPSIS\n{_usage(name, command)}.SH DESCRIPTION\n{_help(command)}"
        yield from _parameters(name, command)
    if inner:
        yield ".SH COMMANDS\n"
    for verb, each in inner.items():
        yield f".SS {_roff(f'{name} {verb}')}\n{_usage(f'{name} {verb}', each)}.PP\n{_help(each)}"
        yield from _parameters(f"{name} {verb}", each)
    yield from _exit_codes()
    yield ".SH SEE ALSO\n.BR farrier (1)\n"


def _head(name: str, about: str) -> Iterator[str]:
    yield f'.TH {_roff(name.upper())} {_SECTION} "" "farrier {farrier.__version__}" "farrier manual"\n'
    yield f".SH NAME\n{_roff(name)} \\- {_roff(about)}\n"


def _usage(name: str, command: _click.Command) -> str:
    context = typer.Context(command, info_name=name)
    return f".B {_roff(name)}\n{_roff(' '.join(command.collect_usage_pieces(context)))}\n"


def _help(command: _click.Command) -> str:
    paragraphs = inspect.cleandoc(command.help or "").split("\n\n")
    return ".PP\n".join(f"{_roff(' '.join(paragraph.split()))}\n" for paragraph in paragraphs)


def _parameters(name: str, command: _click.Command) -> Iterator[str]:
    context = typer.Context(command, info_name=name)
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None and not getattr(parameter, "hidden", False):
            signature, meaning = re.sub(r" <[^>]*>", "", record[0]), record[1]
            yield f".TP\n.B {_roff(signature)}\n{_roff(' '.join(meaning.split())) or '.br'}\n"


def _exit_codes() -> Iterator[str]:
    yield ".SH EXIT STATUS\n"
    for code in ExitCode:
        yield f".TP\n.B {code.value}\n{_roff(code.name.lower().replace('_', ' '))}\n"


def _roff(text: str) -> str:
    """The text without markup of rich, and with no character that roff would interpret."""
    plain = re.sub(r"\[/?(?:bold|dim|red|green|yellow|cyan)[^\]]*\]", "", text)
    escaped = plain.replace("\\", "\\e").replace("-", "\\-").replace("\N{HORIZONTAL ELLIPSIS}", "...")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped
