"""`farrier segment`: manages network segments, and lists the owners of their addresses."""

from __future__ import annotations

from farrier.cli import listing, output
from farrier.cli.connection import Session, with_database
from farrier.cli.form import Form, formed
from farrier.cli.listing import Column, Listing
from farrier.cli.resource_commands import NameArgument
from farrier.cli.resource_shortcut import shortcut
from farrier.model import network_segment
from farrier.model.resource_views import AddressView

segment = shortcut("segment", network_segment.SPEC)


@segment.command("addresses")
@with_database
@formed
async def addresses(session: Session, form: Form, name: NameArgument) -> None:
    """List the allocated addresses and their owners."""
    listed = Listing(
        columns=_COLUMNS,
        pages=lambda: listing.once(lambda: session.queries.addresses(name)),
        name=lambda each: each.address,
        id=lambda each: each.address,
        fields=AddressView.__struct_fields__,
        none=f"no address of {name} is allocated",
    )
    await listing.show(listed, form)


_COLUMNS: tuple[Column[AddressView], ...] = (
    Column("ADDRESS", lambda each, _: each.address),
    Column("PREFIX", lambda each, _: each.prefix),
    Column("OWNER", lambda each, _: each.owner),
    Column("NODE", lambda each, _: each.node),
    Column("SINCE", lambda each, now: output.ago(each.allocated_at, now), ages=True),
)
