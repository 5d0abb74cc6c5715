"""`farrier node`: registers nodes. Other modules have the commands that read nodes, and the commands that act on many
nodes."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from farrier.cli import group
from farrier.cli.node import actions, detail_options
from farrier.cli.node.inspection import NodeArgument, evidence, show, why
from farrier.cli.node.listing import list_
from farrier.cli.output import printing
from farrier.cli.resource.command_factory import history, of_kind
from farrier.cli.settings.connection import CommandSession, with_database
from farrier.model import duration
from farrier.model.intents.requests import Registration
from farrier.model.machine import bootstrap as bootstraps
from farrier.model.node.spec import SPEC

node = group("node")
node.command("list")(list_)
node.command("show")(show)
node.command("why")(why)
node.command("evidence")(evidence)
node.command("history")(with_database(of_kind(SPEC.name, history)))


@node.command("add")
@with_database
@detail_options.described
async def add(  # noqa: PLR0913 - one parameter is one option
    session: CommandSession,
    given: Mapping[str, Any],
    name: Annotated[str, typer.Argument(help="Letters, digits, dots, dashes and underscores.")],
    bmc_address: Annotated[str | None, typer.Option(help="https URL or host of the node's BMC.")] = None,
    bmc_credential: Annotated[
        str | None, typer.Option(help="Reference to the BMC's password, not the password itself.")
    ] = None,
    bootstrap: Annotated[
        bool, typer.Option("--bootstrap", help="Issue a bootstrap token for the node's agent, and print it once.")
    ] = False,
    as_json: printing.AsJson = False,
) -> None:
    """Register a node. farrier does nothing to the machine until an intent requests it."""
    registration = Registration(
        name=name,
        bmc_address=bmc_address,
        bmc_credential=bmc_credential,
        **given,
        bootstrap_token=bootstraps.token(secrets.token_hex()) if bootstrap else None,
        bootstrap_ttl=session.settings.node.bootstrap_ttl,
    )
    (registered,) = await session.requests.register([registration])
    if as_json:
        printing.json(registered)
        return
    typer.echo(f"{name} is registered with id {registered.id}")
    if registered.bootstrap_token is not None:
        _print_token(registered.bootstrap_token, duration.human(session.settings.node.bootstrap_ttl))


@node.command("bootstrap")
@with_database
async def bootstrap(
    session: CommandSession,
    name: NodeArgument,
    as_json: printing.AsJson = False,
) -> None:
    """Issue a new bootstrap token for a node's agent, and print it once. Earlier unused tokens become invalid."""
    ttl = session.settings.node.bootstrap_ttl
    token = await session.requests.issue_bootstrap(name, ttl)
    if as_json:
        printing.json({"bootstrap_token": token})
    else:
        _print_token(token, duration.human(ttl))


def _print_token(token: str, ttl: str) -> None:
    typer.echo(f"bootstrap token: {token}")
    typer.echo(f"it is shown only once, and the agent can use it once, within {ttl}", err=True)


actions.add_to(node)
