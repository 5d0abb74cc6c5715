"""`farrier segment`: manages network segments, and lists the owners of their addresses."""

from __future__ import annotations

from farrier.cli.output import lists, printing
from farrier.cli.output.lists import Column, Listing, OutputFormat, formed
from farrier.cli.resource.command_factory import NameArgument
from farrier.cli.resource.shortcut import shortcut
from farrier.cli.settings.connection import CommandSession, with_database
from farrier.model.network import segment as network_segment
from farrier.model.views.resources import AddressView

segment = shortcut("segment", network_segment.SPEC)


@segment.command("addresses")
@with_database
@formed
async def addresses(session: CommandSession, form: OutputFormat, name: NameArgument) -> None:
    """List the allocated addresses and their owners."""
    listed = Listing(
        columns=_COLUMNS,
        pages=lambda: lists.once(lambda: session.queries.addresses(name)),
        name=lambda each: each.address,
        id=lambda each: each.address,
        fields=AddressView.__struct_fields__,
        none=f"no address of {name} is allocated",
    )
    await lists.show(listed, form)


_COLUMNS: tuple[Column[AddressView], ...] = (
    Column("ADDRESS", lambda each, _: each.address),
    Column("PREFIX", lambda each, _: each.prefix),
    Column("OWNER", lambda each, _: each.owner),
    Column("NODE", lambda each, _: each.node),
    Column("SINCE", lambda each, now: printing.ago(each.allocated_at, now), ages=True),
)
