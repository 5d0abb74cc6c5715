"""`farrier enqueue`: enqueues a resource, and does not wait for the run of its handler."""

from __future__ import annotations

from typing import Annotated

import typer

from farrier.cli.options import completed_names
from farrier.cli.settings.connection import CommandSession, with_database


@with_database
async def enqueue(
    session: CommandSession,
    kind: Annotated[
        str, typer.Argument(help="Kind of the resource: node, network_segment …", autocompletion=completed_names.kinds)
    ],
    resource: Annotated[
        str,
        typer.Argument(
            metavar="ID",
            help="ID or name. The name of a MAAS region is the name of its site.",
            autocompletion=completed_names.names_of(),
        ),
    ],
) -> None:
    """Enqueue a resource, so that its handler runs as soon as possible."""
    id_ = await session.requests.enqueue(kind, resource)
    typer.echo(f"{kind} {id_} is enqueued")
