"""`farrier segment` and `farrier partition`: the commands of built-in kinds.

The commands that read are those of `command_factory`, restricted to one kind. Each action is a command whose options
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
from farrier.cli.output import lists, printing
from farrier.cli.output.lists import Column, Listing, OutputFormat, formed
from farrier.cli.resource import command_factory as commands
from farrier.cli.settings.connection import CommandSession, with_database
from farrier.model.intents import params
from farrier.model.intents.requests import IntentRequest
from farrier.model.kinds.spec import CREATE, KindSpec
from farrier.model.network import segment as network_segment
from farrier.model.partition import partition as ib_partition
from farrier.model.views.resources import AddressView, MemberView

_NEW = Annotated[str, typer.Argument(metavar="NAME", help="Letters, digits, dots, dashes and underscores.")]
_SHOWN: Mapping[str, Any] = {
    "list": commands.list_,
    "show": commands.show,
    "history": commands.history,
    "why": commands.why,
}


def shortcut(name: str, spec: KindSpec) -> typer.Typer:
    """Return the group of commands for a kind."""
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


segment = shortcut("segment", network_segment.SPEC)


@segment.command("addresses")
@with_database
@formed
async def addresses(session: CommandSession, form: OutputFormat, name: commands.NameArgument) -> None:
    """List the allocated addresses and their owners."""
    listed = Listing(
        columns=_ADDRESSES,
        pages=lambda: lists.once(lambda: session.queries.addresses(name)),
        name=lambda each: each.address,
        fields=AddressView.__struct_fields__,
        none=f"no address of {name} is allocated",
    )
    await lists.show(listed, form)


_ADDRESSES: tuple[Column[AddressView], ...] = (
    Column("ADDRESS", lambda each, _: each.address),
    Column("PREFIX", lambda each, _: each.prefix),
    Column("OWNER", lambda each, _: each.owner),
    Column("NODE", lambda each, _: each.node),
    Column("SINCE", lambda each, now: printing.ago(each.allocated_at, now), ages=True),
)
partition = shortcut("partition", ib_partition.SPEC)


@partition.command("members")
@with_database
@formed
async def members(session: CommandSession, form: OutputFormat, name: commands.NameArgument) -> None:
    """List the ports in a partition and their nodes."""
    listed = Listing(
        columns=_MEMBERS,
        pages=lambda: lists.once(lambda: session.queries.members(name)),
        name=lambda each: each.guid,
        id=lambda each: (each.guid, each.owner),
        fields=MemberView.__struct_fields__,
        none=f"{name} has no members",
    )
    await lists.show(listed, form)


_MEMBERS: tuple[Column[MemberView], ...] = (
    Column("PORT", lambda each, _: each.guid),
    Column("OWNER", lambda each, _: each.owner),
    Column("NODE", lambda each, _: each.node),
    Column("MEMBERSHIP", lambda each, _: each.membership),
    Column("STATE", lambda each, _: printing.state(each.state)),
    Column("FOR", lambda each, now: printing.ago(each.since, now), ages=True),
    Column("REASON", lambda each, _: each.reason),
)
