"""`farrier task`: lists the tasks of agents and workers."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec
import typer

from farrier.cli import completed_names, output
from farrier.cli.connection import Session, with_database
from farrier.cli.output import Cell
from farrier.model.node import TaskStatus
from farrier.model.views import TaskView

task = typer.Typer(no_args_is_help=True, add_completion=False, help="List the tasks of agents and workers.")


@task.callback()
def _group() -> None:
    """Make `task` a group although it has only one command, `farrier task list`."""


@task.command("list")
@with_database
async def list_(
    session: Session,
    node: Annotated[
        str | None,
        typer.Argument(help="Name or ID of a node. Default: all nodes.", autocompletion=completed_names.node_names),
    ] = None,
    status: Annotated[list[TaskStatus] | None, typer.Option(help="Only this status. Repeatable.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Number of tasks, the newest first.")] = 100,
    as_json: output.AsJson = False,
) -> None:
    """List agent tasks, the newest first."""
    page = await session.queries.tasks(node, status or (), limit=limit)
    if as_json:
        output.json(page.rows)
    else:
        output.table(_COLUMNS, (_row(task, page.now) for task in page.rows))


_COLUMNS = ("TASK", "NODE", "TYPE", "STATUS", "ATTEMPT", "FAILURES", "CLAIMED BY", "AGE", "RESULT")


def _row(task: TaskView, now: datetime) -> tuple[Cell, ...]:
    return (
        str(task.id),
        task.node,
        task.type,
        task.status,
        str(task.attempt),
        str(task.failures),
        task.claimed_by,
        output.ago(task.created_at, now),
        None if task.result is None else msgspec.json.encode(task.result).decode(),
    )
