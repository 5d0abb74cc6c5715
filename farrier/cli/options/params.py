"""Makes the options for the parameters of an action from the rules of the model."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

import typer

from farrier.cli.options import arguments
from farrier.model.intents import param_values
from farrier.model.intents.params import FieldRules

_PANEL = "Parameters of the intent"


def values(fields: Mapping[str, FieldRules], given: Mapping[str, Any]) -> dict[str, object]:
    """Convert the given values to the action's parameters. Omitted values keep their defaults."""
    found: dict[str, object] = {}
    for name, value in given.items():
        if isinstance(value, list):
            found |= param_values.typed(fields, {name: ",".join(value)})
        elif value is not None:
            found[name] = value
    return {name: value for name, value in found.items() if value != []}


def options(fields: Mapping[str, FieldRules]) -> Iterator[inspect.Parameter]:
    """Return one option for each parameter."""
    for name, field in fields.items():
        flag = name.replace("_", "-")
        type_: Any = _TYPES.get(field.type, str)
        option = typer.Option(
            ... if field.required else None,
            f"--{flag}/--no-{flag}" if field.type == "boolean" else f"--{flag}",
            help=_help(field),
            parser=arguments.whole if field.type == "integer" else None,
            metavar="INTEGER" if field.type == "integer" else None,
            rich_help_panel=_PANEL,
        )
        wanted = type_ if field.required else type_ | None
        yield inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=option, annotation=wanted)


_TYPES: Mapping[str, Any] = {"boolean": bool, "integer": int, "array": list[str]}


def _help(field: FieldRules) -> str:
    return " ".join(filter(None, (field.help, _expected(field))))


def _expected(field: FieldRules) -> str:
    match field.type:
        case "integer":
            bounds = (
                f"from {field.min}" if field.min is not None else "",
                f"to {field.max}" if field.max is not None else "",
            )
            return " ".join(filter(None, ("A whole number, decimal or 0x…,", *bounds))).rstrip(",") + "."
        case "array":
            return "Repeatable, or several values separated by commas."
        case "enum":
            return f"One of {', '.join(field.enum)}."
        case _:
            return ""
