"""`farrier node list`: lists the nodes that the arguments select. Nodes above a limit come first."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Annotated

import msgspec
import typer

from farrier.cli.node import detail_options
from farrier.cli.options import arguments, completed_names
from farrier.cli.output import lists, pages, printing
from farrier.cli.output.lists import Column, Listing, OutputFormat, formed
from farrier.cli.output.pages import MissingNames
from farrier.cli.output.printing import Cell
from farrier.cli.settings.connection import CommandSession, with_database
from farrier.model.advice.diagnosis import notes
from farrier.model.node.clocks import Overdue
from farrier.model.node.details import LISTED
from farrier.model.views.nodes import NodeFilter, NodeView, Page


@with_database
@detail_options.narrowed
@formed
async def list_(
    session: CommandSession,
    form: OutputFormat,
    wanted: NodeFilter,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME|GLOB",
            help="Only these nodes: names, IDs, globs such as gpu-1*.",
            autocompletion=completed_names.node_names,
        ),
    ] = None,
) -> None:
    """List nodes: first the nodes above a limit, starting with the node furthest above its limit, then all others by
    name."""
    wanted = msgspec.structs.replace(wanted, names=arguments.names(names))
    missing = MissingNames(wanted)
    listed = Listing(
        columns=_COLUMNS,
        pages=lambda: _pages(session, wanted, missing),
        name=lambda row: row.node.name,
        id=lambda row: row.node.id,
        as_object=lambda row, _: printing.plain(row.node) | {_ABOVE: row.clocks},
        fields=(*NodeView.__struct_fields__, _ABOVE),
        none=missing.otherwise("no node matches"),
    )
    await lists.show(listed, form)
    missing.refuse()


async def _pages(session: CommandSession, wanted: NodeFilter, missing: MissingNames) -> AsyncIterator[Page[Overdue]]:
    """Yield the nodes above a limit, and then all other nodes."""
    above = await session.queries.overdue(wanted, session.settings.sla)
    missing.seen(overdue.node for overdue in above.rows)
    without = {overdue.node.id for overdue in above.rows}
    first = above.rows
    async for page in pages.of_nodes(session, wanted, missing):
        yield Page(page.now, (*first, *(Overdue(node, ()) for node in page.rows if node.id not in without)))
        first = ()


_ABOVE = "above_sla"


def _workflow(row: Overdue, _: datetime) -> Cell:
    workflow = row.node.workflow
    if workflow is None:
        return None
    stage = f"{workflow.stage}, attempt {workflow.attempt}" if workflow.stage else workflow.status
    return f"{workflow.kind}: {stage}"


def _detail(name: str) -> Column[Overdue]:
    return Column(name.upper(), lambda row, _: getattr(row.node, name))


_COLUMNS: tuple[Column[Overdue], ...] = (
    Column("NODE", lambda row, _: row.node.name),
    Column("STATUS", lambda row, _: printing.state(row.node.status)),
    Column("FOR", lambda row, now: printing.ago(row.node.status_entered_at, now), ages=True),
    Column("ABOVE SLA", lambda row, _: printing.excess(row.clocks[0] if row.clocks else None), ages=True),
    Column("MANAGEMENT", lambda row, _: row.node.management and printing.state(row.node.management)),
    *map(_detail, LISTED),
    Column("NOTE", lambda row, _: "; ".join(notes(row.node))),
    Column("WORKFLOW", _workflow, wide=True),
    Column("ID", lambda row, _: str(row.node.id), wide=True),
    Column("LABELS", lambda row, _: ",".join(f"{key}={value}" for key, value in row.node.labels.items()), wide=True),
    Column("MAAS ID", lambda row, _: row.node.maas_id, wide=True),
    Column("HEARTBEAT", lambda row, now: printing.ago(row.node.last_heartbeat_at, now), wide=True, ages=True),
    Column("AGE", lambda row, now: printing.ago(row.node.created_at, now), wide=True, ages=True),
)
