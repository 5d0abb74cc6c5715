"""`farrier enqueue`: enqueues a resource. Does not wait for the run."""

from __future__ import annotations

from typing import Annotated

import typer

from farrier.cli.connection import Session, with_database


@with_database
async def enqueue(
    session: Session,
    kind: Annotated[str, typer.Argument(help="Kind of resource: node, network_segment …")],
    resource: Annotated[str, typer.Argument(metavar="ID", help="ID or name; the name of a MAAS region is its site.")],
) -> None:
    """Enqueue a resource, so that its handler runs as soon as possible."""
    id_ = await session.requests.enqueue(kind, resource)
    typer.echo(f"{kind} {id_} is enqueued")
