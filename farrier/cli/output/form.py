"""Defines the options that select the output format of a list: -o, --json, --sort-by and --watch.

Three decorators add these options to a command, and pass an `OutputFormat` to the command. `formed` adds all four
options. `formed_once` omits --watch, for a list that does not change. `formed_as_is` adds only -o and --json, for a
list with a fixed order. `listing` prints the list in this format.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Any, Concatenate, ParamSpec, TypeVar

import msgspec
import typer

from farrier.cli.options import completion, signatures
from farrier.cli.output import printing as output

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
"""What the command works on: a session, or settings."""


class Output(StrEnum):
    """The output formats that -o accepts."""

    TABLE = "table"
    WIDE = "wide"
    NAME = "name"
    JSON = "json"
    JSONPATH = "jsonpath"


_PLAIN = (Output.WIDE, Output.NAME, Output.JSON)


class OutputFormat(msgspec.Struct, frozen=True, kw_only=True):
    """The output format of a command that prints a list. `path` is the JSONPath of -o."""

    output: Output
    path: str = ""
    sort_by: str = ""
    watch: bool = False


def formed(command: Callable[Concatenate[S, OutputFormat, P], R]) -> Callable[Concatenate[S, P], R]:
    """Add all options to a command."""
    return signatures.with_options(command, signatures.parameters(_form), _form)


def formed_once(command: Callable[Concatenate[S, OutputFormat, P], R]) -> Callable[Concatenate[S, P], R]:
    """Add all options except --watch to a command."""
    return signatures.with_options(command, signatures.parameters(_form)[:3], _form)


def formed_as_is(command: Callable[Concatenate[S, OutputFormat, P], R]) -> Callable[Concatenate[S, P], R]:
    """Add only -o and --json to a command."""
    return signatures.with_options(command, signatures.parameters(_form)[:2], _form)


def _known_form(text: str) -> str:
    name, _, path = text.partition("=")
    if name == Output.JSONPATH and path:
        compiled(path)
    elif text not in _PLAIN:
        raise typer.BadParameter(f"expected wide, name, json or jsonpath=EXPR, got {text!r}")
    return text


def _form(
    *,
    form: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FORM",
            help="Format of the list: wide, name, json or jsonpath=EXPR. EXPR is a JSONPath (RFC 9535) "
            "for the JSON of the list.",
            parser=_known_form,
            autocompletion=completion.one_of(("wide", "name", "json", "jsonpath=")),
            rich_help_panel=output.PANEL,
        ),
    ] = None,
    as_json: output.AsJson = False,
    sort_by: Annotated[
        str,
        typer.Option(
            metavar="FIELD",
            help="Sort by this field of the JSON, such as status or labels.row. -FIELD sorts in descending order.",
            rich_help_panel=output.PANEL,
        ),
    ] = "",
    watch: Annotated[
        bool,
        typer.Option(
            "--watch", "-w", help="Keep running, and print each change, until Ctrl-C.", rich_help_panel=output.PANEL
        ),
    ] = False,
) -> OutputFormat:
    if as_json and form not in (None, Output.JSON):
        raise typer.BadParameter(
            f"--json means -o json, so it cannot be combined with -o {form}; give only one of them"
        )
    name, _, path = (Output.JSON if as_json else form or Output.TABLE).partition("=")
    return OutputFormat(output=Output(name), path=path, sort_by=sort_by, watch=watch)


def compiled(path: str) -> Any:
    """Compile a JSONPath of RFC 9535. An invalid JSONPath is a usage error."""
    import jsonpath  # this import takes half of the time in which a listing is loaded

    try:
        return jsonpath.JSONPathEnvironment(strict=True).compile(path)
    except jsonpath.JSONPathError as error:
        reason = str(error).partition("\n")[0]
        raise typer.BadParameter(f"expected a JSONPath such as $[*].name, got {path!r}: {reason}") from None
