"""`farrier partition`: manages InfiniBand partitions, and lists the ports in them."""

from __future__ import annotations

from farrier.cli import listing, output
from farrier.cli.connection import Session, with_database
from farrier.cli.form import Form, formed
from farrier.cli.listing import Column, Listing
from farrier.cli.resource_commands import NameArgument
from farrier.cli.resource_shortcut import shortcut
from farrier.model import ib_partition
from farrier.model.resource_views import MemberView

partition = shortcut("partition", ib_partition.SPEC)


@partition.command("members")
@with_database
@formed
async def members(session: Session, form: Form, name: NameArgument) -> None:
    """List the ports in a partition and their nodes."""
    listed = Listing(
        columns=_COLUMNS,
        pages=lambda: listing.once(lambda: session.queries.members(name)),
        name=lambda each: each.guid,
        id=lambda each: (each.guid, each.owner),
        fields=MemberView.__struct_fields__,
        none=f"{name} has no members",
    )
    await listing.show(listed, form)


_COLUMNS: tuple[Column[MemberView], ...] = (
    Column("PORT", lambda each, _: each.guid),
    Column("OWNER", lambda each, _: each.owner),
    Column("NODE", lambda each, _: each.node),
    Column("MEMBERSHIP", lambda each, _: each.membership),
    Column("STATE", lambda each, _: output.state(each.state)),
    Column("FOR", lambda each, now: output.ago(each.since, now), ages=True),
    Column("REASON", lambda each, _: each.reason),
)
