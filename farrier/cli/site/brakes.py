"""`farrier site brakes`: lists the brakes that hold nodes in service, and the brakes that operators have lifted."""

from __future__ import annotations

from farrier.cli.output import lists, printing
from farrier.cli.output.lists import Column, Listing, OutputFormat, formed
from farrier.cli.settings.connection import CommandSession, with_database
from farrier.model import duration
from farrier.model.views.brakes import BrakeView

# How many held nodes a line names; -o json has more.
_NAMED = 3


@with_database
@formed
async def list_(session: CommandSession, form: OutputFormat) -> None:
    """List the brakes that hold nodes in service, and the brakes that operators have lifted."""
    listed = Listing(
        columns=_COLUMNS,
        pages=lambda: lists.once(session.queries.brakes),
        name=lambda brake: brake.site,
        fields=BrakeView.__struct_fields__,
        none="no brake holds a node or is lifted",
    )
    await lists.show(listed, form)


def _nodes(brake: BrakeView) -> str:
    more = brake.held - len(brake.nodes[:_NAMED])
    return ", ".join(brake.nodes[:_NAMED]) + (f" and {more} more" if more else "")


def _lifted(brake: BrakeView) -> str:
    return f"by {brake.lifted_by}: {brake.lift_reason}" if brake.lifted_by else ""


_COLUMNS: tuple[Column[BrakeView], ...] = (
    Column("SITE", lambda brake, _: brake.site or "''"),
    Column("CAUSE", lambda brake, _: brake.source),
    Column("HOLDS FOR", lambda brake, now: printing.ago(brake.since, now), ages=True),
    Column("HELD", lambda brake, _: str(brake.held)),
    Column("LEAVING", lambda brake, _: None if brake.leaving is None else f"{brake.leaving} of {brake.in_service}"),
    Column("NODES", lambda brake, _: _nodes(brake)),
    Column(
        "LIFT ENDS IN",
        lambda brake, now: duration.human(brake.lifted_until - now) if brake.lifted_until else None,
        ages=True,
    ),
    Column("LIFTED", lambda brake, _: _lifted(brake)),
)
