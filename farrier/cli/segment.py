"""`farrier segment`: network segments, and the owners of their addresses."""

from __future__ import annotations

import typer

from farrier.cli import output
from farrier.cli.connection import Session, with_database
from farrier.cli.resource_commands import NameArgument
from farrier.cli.resource_shortcut import shortcut
from farrier.model import network_segment

segment = shortcut(network_segment.SPEC, "Create, list, inspect and delete network segments.")


@segment.command("addresses")
@with_database
async def addresses(session: Session, name: NameArgument, as_json: output.AsJson = False) -> None:
    """List the allocated addresses and their owners."""
    page = await session.resources.addresses(name)
    if as_json:
        output.json(page.rows)
        return
    if not page.rows:
        typer.echo(f"no address of {name} is allocated", err=True)
    output.table(
        ("ADDRESS", "PREFIX", "OWNER", "NODE", "SINCE"),
        ((a.address, a.prefix, a.owner, a.node, output.ago(a.allocated_at, page.now)) for a in page.rows),
    )
