"""`farrier task`: lists the tasks of agents and workers."""

from __future__ import annotations

from typing import Annotated

import typer

from farrier.cli import group
from farrier.cli.options import completed_names
from farrier.cli.output import lists, printing
from farrier.cli.output.lists import Column, Listing, OutputFormat, formed
from farrier.cli.settings.connection import CommandSession, with_database
from farrier.model.node.snapshot import TaskStatus
from farrier.model.views.nodes import TaskView

task = group("task")


@task.command("list")
@with_database
@formed
async def list_(
    session: CommandSession,
    form: OutputFormat,
    node: Annotated[
        str | None,
        typer.Argument(help="Name or ID of a node. Default: all nodes.", autocompletion=completed_names.node_names),
    ] = None,
    status: Annotated[list[TaskStatus] | None, typer.Option(help="Only this status. Repeatable.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Largest number of tasks. The newest tasks are first.")] = 100,
) -> None:
    """List agent tasks, the newest first."""
    listed = Listing(
        columns=_COLUMNS,
        pages=lambda: lists.once(lambda: session.queries.tasks(node, status or (), limit=limit)),
        name=lambda each: str(each.id),
        id=lambda each: each.id,
        fields=TaskView.__struct_fields__,
        none="no task matches",
        newest=limit,
    )
    await lists.show(listed, form)


_COLUMNS: tuple[Column[TaskView], ...] = (
    Column("TASK", lambda each, _: str(each.id)),
    Column("NODE", lambda each, _: each.node),
    Column("TYPE", lambda each, _: each.type),
    Column("STATUS", lambda each, _: each.status),
    Column("ATTEMPT", lambda each, _: str(each.attempt)),
    Column("FAILURES", lambda each, _: str(each.failures)),
    Column("CLAIMED BY", lambda each, _: each.claimed_by),
    Column("AGE", lambda each, now: printing.ago(each.created_at, now), ages=True),
    Column("RESULT", lambda each, _: None if each.result is None else printing.text(each.result)),
    Column("LEASE UNTIL", lambda each, _: printing.moment(each.lease_until), wide=True),
    Column("ENDED", lambda each, _: printing.moment(each.ended_at), wide=True),
)
