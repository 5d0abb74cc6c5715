"""Makes the commands of a built-in kind from its spec: `farrier segment`, `farrier partition`.

The commands that read are those of `resource_commands`, restricted to this kind. Each action is a command whose options
are the action's parameters; the command for `create` is named `add`. These commands are derived only from the kind's
spec.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any

import typer

from farrier.cli import group
from farrier.cli.intent import answers
from farrier.cli.intent.answers import Asking
from farrier.cli.options import params as param_options
from farrier.cli.options import signatures
from farrier.cli.output import printing
from farrier.cli.resource import command_factory as commands
from farrier.cli.settings.connection import CommandSession, with_database
from farrier.model.intents import params
from farrier.model.intents.requests import IntentRequest
from farrier.model.kinds.spec import CREATE, KindSpec

_NEW = Annotated[str, typer.Argument(metavar="NAME", help="Letters, digits, dots, dashes and underscores.")]
_SHOWN: Mapping[str, Any] = {
    "list": commands.list_,
    "show": commands.show,
    "history": commands.history,
    "why": commands.why,
}


def shortcut(name: str, spec: KindSpec) -> typer.Typer:
    """Return the group of commands for this kind."""
    shortcuts = group(name)
    for shown, command in _SHOWN.items():
        shortcuts.command(shown)(with_database(commands.of_kind(spec.name, command)))
    for action, each in spec.requests.items():
        text = f"{each.description[0].upper()}{each.description[1:].rstrip('.')}."
        called = "add" if action == CREATE else action.replace("_", "-")
        shortcuts.command(called)(with_database(_asks(spec, action, each.params, text)))
    return shortcuts


def _asks(spec: KindSpec, action: str, takes: type[params.Params], text: str) -> Callable[..., Awaitable[None]]:
    """Return a command that submits an intent with the action."""
    fields = params.describe(takes).fields

    async def command(  # noqa: PLR0913 - one parameter is one option
        session: CommandSession,
        name: commands.NameArgument,
        *,
        wait: answers.Wait = False,
        until: commands.Until = None,
        timeout: answers.Timeout = "60s",
        key: answers.Key = None,
        requested_by: answers.By = None,
        as_json: printing.AsJson = False,
        **given: Any,
    ) -> None:
        request = IntentRequest(
            kind=spec.name,
            resource=name,
            action=action,
            params=param_options.values(fields, given),
            key=key,
            requested_by=requested_by,
        )
        await commands.ask(session, Asking(request=request, wait=wait, until=until, timeout=timeout, as_json=as_json))

    if action == CREATE:
        command.__annotations__["name"] = _NEW
    return signatures.replace_given(command, param_options.options(fields), text)
