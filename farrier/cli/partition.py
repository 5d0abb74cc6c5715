"""`farrier partition`: InfiniBand partitions, and the ports in them."""

from __future__ import annotations

import typer

from farrier.cli import output
from farrier.cli.connection import Session, with_database
from farrier.cli.resource_commands import NameArgument
from farrier.cli.resource_shortcut import shortcut
from farrier.model import ib_partition

partition = shortcut(ib_partition.SPEC, "Create, list, inspect and delete InfiniBand partitions.")


@partition.command("members")
@with_database
async def members(session: Session, name: NameArgument, as_json: output.AsJson = False) -> None:
    """List the ports in a partition and their nodes."""
    page = await session.resources.members(name)
    if as_json:
        output.json(page.rows)
        return
    if not page.rows:
        typer.echo(f"{name} has no members", err=True)
    output.table(
        ("PORT", "OWNER", "NODE", "MEMBERSHIP", "STATE", "FOR", "REASON"),
        (
            (m.guid, m.owner, m.node, m.membership, output.state(m.state), output.ago(m.since, page.now), m.reason)
            for m in page.rows
        ),
    )
