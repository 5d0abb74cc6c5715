"""`farrier node list`: the nodes that the arguments select, those above a limit first."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import datetime
from typing import Annotated

import msgspec
import typer

from farrier.cli import detail_options, output
from farrier.cli.connection import Session, with_database
from farrier.cli.missing import Missing
from farrier.cli.output import Cell
from farrier.model.clocks import Clock, Overdue, OverduePage
from farrier.model.details import LISTED
from farrier.model.edges import NODE
from farrier.model.views import NodeView, Page, Wanted
from farrier.model.workflow import WorkflowStatus

# Rows that are laid out together; the next ones come under headings of their own.
_PAGE = 1000

_COLUMNS = ("NODE", "STATUS", "FOR", "ABOVE SLA", "MANAGEMENT", *map(str.upper, LISTED), "NOTE")


@with_database
@detail_options.narrowed
async def list_(
    session: Session,
    wanted: Wanted,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME|GLOB", help="Only these: names, IDs, globs such as gpu-1*.")
    ] = None,
    as_json: output.AsJson = False,
) -> None:
    """List nodes by name. Nodes above a limit are first, those furthest above it on top."""
    wanted = msgspec.structs.replace(wanted, names=tuple(names or ()))
    above = await session.queries.overdue(wanted, session.settings.sla)
    missing = Missing(NODE, wanted.names if wanted == Wanted(names=wanted.names) else ())
    missing.seen(overdue.node for overdue in above.rows)
    pages = _pages(session, wanted, {overdue.node.id for overdue in above.rows}, missing)
    if as_json:
        await output.json_array(_objects(above.rows, pages))
    else:
        await _print(above, pages)
    missing.refuse()


async def _print(above: OverduePage, pages: AsyncIterator[Page[NodeView]]) -> None:
    first = [_row(overdue.node, overdue.clocks[0], above.now) for overdue in above.rows]
    there = bool(first)
    async for page in pages:
        output.table(_COLUMNS, [*first, *(_row(line, None, page.now) for line in page.rows)])
        there, first = there or bool(page.rows), []
    if not there:
        typer.echo("no node matches", err=True)


async def _pages(
    session: Session, wanted: Wanted, without: set[int], missing: Missing
) -> AsyncIterator[Page[NodeView]]:
    """All nodes except those already shown, in pages; at least one page."""
    after, full = "", True
    while full:
        page = await session.queries.inventory(wanted, after=after, limit=_PAGE)
        missing.seen(page.rows)
        yield Page(page.now, tuple(line for line in page.rows if line.id not in without))
        full = len(page.rows) == _PAGE
        after = page.rows[-1].name if full else after


async def _objects(above: Sequence[Overdue], pages: AsyncIterator[Page[NodeView]]) -> AsyncIterator[list[object]]:
    yield [output.plain(overdue.node) | {"above_sla": overdue.clocks} for overdue in above]
    async for page in pages:
        yield [output.plain(line) | {"above_sla": []} for line in page.rows]


def _row(line: NodeView, worst: Clock | None, now: datetime) -> tuple[Cell, ...]:
    return (
        line.name,
        output.state(line.status),
        output.ago(line.status_entered_at, now),
        output.excess(worst),
        line.management and output.state(line.management),
        *(getattr(line, name) for name in LISTED),
        _note(line),
    )


def _note(line: NodeView) -> str:
    return "; ".join(_notes(line))


def _notes(line: NodeView) -> Iterator[str]:
    """Notes about problems that may need a decision of an operator."""
    workflow = line.workflow
    if line.paused is not None:
        yield f"paused: {line.paused}"
    if line.quarantine_cause is not None:
        yield f"{line.quarantine_cause}: {line.quarantine_reason}"
    if workflow is not None and workflow.status == WorkflowStatus.FAILED_MANUAL_INTERVENTION:
        yield f"waits for an operator: {workflow.failure_class or workflow.kind}"
    if workflow is not None and workflow.status == WorkflowStatus.FAILED_RETRYABLE:
        yield f"retries: {workflow.failure_class or workflow.kind}"
    if line.bmc_failure is not None:
        yield f"BMC: {line.bmc_failure}"
    if line.power_failure is not None:
        yield f"power unreadable: {line.power_failure}"
