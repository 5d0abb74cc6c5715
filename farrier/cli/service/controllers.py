"""`farrier controllers`: lists the controllers with their shards, the shards without a controller, and the doors."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from enum import StrEnum

import msgspec
from rich.text import Text

from farrier.cli.output import lists, printing
from farrier.cli.output.lists import Column, Listing, OutputFormat, formed
from farrier.cli.output.printing import Cell
from farrier.cli.settings.connection import CommandSession, with_database
from farrier.model import duration
from farrier.model.loop.doors import DoorState, DoorView
from farrier.model.views.fleet import ControllerView, Life, ShardOwnership, Share
from farrier.model.views.nodes import Page

_COLOURS = {
    Life.ALIVE.value: "green",
    Life.LEAVING.value: "yellow",
    Life.OUT_OF_TOUCH.value: "yellow",
    Life.EXPIRED.value: "red",
    DoorState.SILENT.value: "red",
}
_NONE = "none"


class OwnedPart(msgspec.Struct, frozen=True, kw_only=True):
    """The shards of one kind that a controller owns, or that no controller owns, or a door. If no controller owns them,
    all fields about the controller are None. If a controller runs no kind, it has a single part, in which `kind` is
    None. `role` is `controller`, or `door of agents` or `door of pages`; `name` is the name of its host."""

    name: str | None = None
    role: str | None = None
    id: str | None = None
    state: str | None = None
    release: str | None = None
    started_at: datetime | None = None
    renewed_at: datetime | None = None
    kind: str | None = None
    shards: int = 0
    lag: float | None = None
    reached_at: datetime | None = None


@with_database
@formed
async def controllers(session: CommandSession, form: OutputFormat) -> None:
    """List the controllers with their shards and lag, the shards without a controller, and the doors.

    The list includes expired controllers, and has a line for each kind of resource that a controller runs. LAG is the
    delay of the most overdue run when the controller last renewed its lease. A door is a server of farrier serve;
    REACHED is when a door of agents last answered an agent.
    """

    async def read() -> Page[OwnedPart]:
        found = await session.queries.controllers()
        return Page(found.now, tuple(_parts(found)))

    listed = Listing(
        columns=_COLUMNS,
        pages=lambda: lists.once(read),
        name=lambda part: part.name or _NONE,
        id=lambda part: (part.id, part.kind),
        fields=OwnedPart.__struct_fields__,
        none="there are no controllers and no shards",
    )
    await lists.show(listed, form)


def _parts(found: ShardOwnership) -> Iterator[OwnedPart]:
    for controller in found.controllers:
        part = _of(controller, "controller", controller.life(found.now))
        yield from (_with(part, share) for share in controller.shares)
        if not controller.shares:
            yield part
    yield from (_with(OwnedPart(), share) for share in found.unowned)
    for door in found.doors:
        part = _of(door, f"door of {door.kind}", door.state(found.now))
        yield msgspec.structs.replace(part, reached_at=door.reached_at)


def _of(process: ControllerView | DoorView, role: str, state: StrEnum) -> OwnedPart:
    return OwnedPart(
        name=process.name,
        role=role,
        id=str(process.id),
        state=state.value,
        release=process.release,
        started_at=process.started_at,
        renewed_at=process.renewed_at,
    )


def _with(part: OwnedPart, share: Share) -> OwnedPart:
    return msgspec.structs.replace(part, kind=share.kind, shards=share.shards, lag=share.lag)


def _name(part: OwnedPart, _: datetime) -> Cell:
    if part.id is None:
        return Text(_NONE, style="bold red")
    return f"{part.name} ({part.id.partition('-')[0]})"


_COLUMNS: tuple[Column[OwnedPart], ...] = (
    Column("NAME", _name),
    Column("ROLE", lambda part, _: part.role),
    Column("STATE", lambda part, _: part.state and Text(part.state, style=_COLOURS[part.state])),
    Column("RELEASE", lambda part, _: part.release),
    Column("UP FOR", lambda part, now: printing.ago(part.started_at, now), ages=True),
    Column(
        "RENEWED", lambda part, now: f"{printing.ago(part.renewed_at, now)} ago" if part.renewed_at else None, ages=True
    ),
    Column("KIND", lambda part, _: part.kind),
    Column("SHARDS", lambda part, _: str(part.shards) if part.kind else None),
    Column("LAG", lambda part, _: None if part.lag is None else duration.human(timedelta(seconds=part.lag)), ages=True),
    Column(
        "REACHED", lambda part, now: f"{printing.ago(part.reached_at, now)} ago" if part.reached_at else None, ages=True
    ),
    Column("ID", lambda part, _: part.id, wide=True),
)
