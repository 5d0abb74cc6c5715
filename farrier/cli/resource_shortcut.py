"""The commands of one built-in kind, made from its spec: `farrier segment`, `farrier partition`.

Commands that read are those of `resource_commands`, for this kind only. Each action is a command whose options are the
action's parameters; the command for `create` is named `add`. The command line of a kind comes only from its spec.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Annotated, Any

import typer

from farrier.cli import arguments, intent_answers, output
from farrier.cli import resource_commands as commands
from farrier.cli.connection import Session, with_database
from farrier.cli.resource_commands import Asking
from farrier.model import param_texts, params
from farrier.model.kinds import CREATE, KindSpec
from farrier.model.params import Field
from farrier.model.requests import ResourceRequest

_NEW = Annotated[str, typer.Argument(metavar="NAME", help="Letters, digits, dots, dashes and underscores.")]
_PANEL = "Parameters of the intent"
_SHOWN: Mapping[str, Any] = {
    "list": commands.list_,
    "show": commands.show,
    "history": commands.history,
    "why": commands.why,
}


def shortcut(spec: KindSpec, help_: str) -> typer.Typer:
    """A group of commands for this kind."""
    group = typer.Typer(no_args_is_help=True, add_completion=False, help=help_)
    for name, command in _SHOWN.items():
        group.command(name)(with_database(commands.of_kind(spec.name, command)))
    for action, each in spec.requests.items():
        text = f"{each.description[0].upper()}{each.description[1:].rstrip('.')}."
        name = "add" if action == CREATE else action.replace("_", "-")
        group.command(name)(with_database(_asks(spec, action, each.params, text)))
    return group


def _asks(spec: KindSpec, action: str, takes: type[params.Params], text: str) -> Callable[..., Awaitable[None]]:
    """A command that submits an intent with the action."""
    fields = params.describe(takes).fields

    async def command(  # noqa: PLR0913 - one parameter is one option
        session: Session,
        name: commands.NameArgument,
        *,
        wait: commands.Wait = False,
        until: commands.Until = None,
        timeout: commands.Timeout = "60s",
        key: commands.Key = None,
        requested_by: commands.By = None,
        as_json: output.AsJson = False,
        **given: Any,
    ) -> None:
        request = ResourceRequest(
            kind=spec.name,
            resource=name,
            action=action,
            params=_params(fields, given),
            key=key,
            requested_by=requested_by or intent_answers.this_user(),
        )
        await commands.ask(session, Asking(request=request, wait=wait, until=until, timeout=timeout, as_json=as_json))

    signature = inspect.signature(command, eval_str=True)
    own = [parameter for parameter in signature.parameters.values() if parameter.name != "given"]
    if action == CREATE:
        own[1] = own[1].replace(annotation=_NEW)
    # typer derives the options from this signature, and the help from this docstring.
    vars(command)["__signature__"] = signature.replace(parameters=[*own, *_options(fields)])
    command.__doc__ = text
    return command


def _params(fields: Mapping[str, Field], given: Mapping[str, Any]) -> dict[str, object]:
    """Convert the given values to the action's parameters. Omitted values keep their defaults."""
    found: dict[str, object] = {}
    for name, value in given.items():
        if isinstance(value, list):
            found |= param_texts.typed(fields, {name: ",".join(value)})
        elif value is not None:
            found[name] = value
    return {name: value for name, value in found.items() if value != []}


def _options(fields: Mapping[str, Field]) -> Iterator[inspect.Parameter]:
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


def _help(field: Field) -> str:
    match field.type:
        case "boolean":
            return ""
        case "integer":
            bounds = (
                f"from {field.min}" if field.min is not None else "",
                f"to {field.max}" if field.max is not None else "",
            )
            return " ".join(filter(None, ("A whole number, decimal or 0x…,", *bounds))).rstrip(",") + "."
        case "array":
            return "Repeatable, or several separated by commas."
        case "enum":
            return f"One of {', '.join(field.enum)}."
        case _:
            return ""
