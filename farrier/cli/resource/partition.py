"""`farrier partition`: manages InfiniBand partitions, and lists the ports in them."""

from __future__ import annotations

from farrier.cli.output import lists, printing
from farrier.cli.output.lists import Column, Listing, OutputFormat, formed
from farrier.cli.resource.command_factory import NameArgument
from farrier.cli.resource.shortcut import shortcut
from farrier.cli.settings.connection import CommandSession, with_database
from farrier.model.partition import partition as ib_partition
from farrier.model.views.resources import MemberView

partition = shortcut("partition", ib_partition.SPEC)


@partition.command("members")
@with_database
@formed
async def members(session: CommandSession, form: OutputFormat, name: NameArgument) -> None:
    """List the ports in a partition and their nodes."""
    listed = Listing(
        columns=_COLUMNS,
        pages=lambda: lists.once(lambda: session.queries.members(name)),
        name=lambda each: each.guid,
        id=lambda each: (each.guid, each.owner),
        fields=MemberView.__struct_fields__,
        none=f"{name} has no members",
    )
    await lists.show(listed, form)


_COLUMNS: tuple[Column[MemberView], ...] = (
    Column("PORT", lambda each, _: each.guid),
    Column("OWNER", lambda each, _: each.owner),
    Column("NODE", lambda each, _: each.node),
    Column("MEMBERSHIP", lambda each, _: each.membership),
    Column("STATE", lambda each, _: printing.state(each.state)),
    Column("FOR", lambda each, now: printing.ago(each.since, now), ages=True),
    Column("REASON", lambda each, _: each.reason),
)
