"""Reads every command with its help, arguments and options, for the manual pages and the page of commands."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import msgspec
import typer

from farrier import cli

if TYPE_CHECKING:
    from typer import _click  # these classes have no public names in typer

_MARKUP = re.compile(r"\[/?(?:bold|dim|red|green|yellow|cyan)[^\]]*\]")


class Parameter(msgspec.Struct, frozen=True):
    """An argument or option: its form, such as `-l, --label TEST`, its meaning, and its group in the help."""

    signature: str
    meaning: str
    panel: str


class Command(msgspec.Struct, frozen=True):
    """A command that can be run."""

    name: str
    usage: str
    paragraphs: tuple[str, ...]
    parameters: tuple[Parameter, ...]

    @property
    def group(self) -> str:
        """The word after `farrier` in the command."""
        return self.name.split()[1]


def commands() -> Iterator[Command]:
    """Return all commands in the order of `farrier --help`."""
    for name, about in cli.COMMANDS.items():
        command = typer.main.get_command(cli.load(name))
        inner: Mapping[str, _click.Command] = getattr(command, "commands", {})
        if not inner or getattr(command, "invoke_without_command", False):
            yield _described(f"farrier {name}", command, command.help or about)
        for verb, each in inner.items():
            yield _described(f"farrier {name} {verb}", each, each.help or "")


def _described(name: str, command: _click.Command, about: str) -> Command:
    context = typer.Context(command, info_name=name)
    return Command(
        name,
        " ".join(command.collect_usage_pieces(context)),
        tuple(_plain(paragraph) for paragraph in inspect.cleandoc(about).split("\n\n")),
        tuple(_parameters(command, context)),
    )


def _parameters(command: _click.Command, context: typer.Context) -> Iterator[Parameter]:
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None and not getattr(parameter, "hidden", False):
            signature = re.sub(r" <[^>]*>", "", record[0])
            yield Parameter(_plain(signature), _plain(record[1]), getattr(parameter, "rich_help_panel", None) or "")


def _plain(text: str) -> str:
    """Return the text on one line, without the markup of rich."""
    return " ".join(_MARKUP.sub("", text).split())
