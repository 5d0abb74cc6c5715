"""`farrier controllers`: lists the controllers with their shards, and the shards without a controller."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from rich.text import Text

from farrier.cli import output
from farrier.cli.connection import Session, with_database
from farrier.cli.output import Cell
from farrier.model import duration
from farrier.model.controller_views import ControllerView, Life, Ownership, Share

_COLUMNS = ("CONTROLLER", "STATE", "RELEASE", "UP FOR", "RENEWED", "KIND", "SHARDS", "LAG")
_COLOURS = {Life.ALIVE: "green", Life.OUT_OF_TOUCH: "yellow", Life.EXPIRED: "red"}


@with_database
async def controllers(session: Session, as_json: output.AsJson = False) -> None:
    """List the controllers with their shards and their lag, and the shards without a controller.

    Expired controllers are listed, too. LAG is how far the latest run was overdue when the controller last renewed its
    lease.
    """
    found = await session.queries.controllers()
    if as_json:
        lives = ({"state": each.life(found.now).value} for each in found.controllers)
        plain = output.plain(found)
        plain["controllers"] = [each | life for each, life in zip(plain["controllers"], lives, strict=True)]
        output.json(plain)
    else:
        output.table(_COLUMNS, _rows(found))


def _rows(found: Ownership) -> Iterator[tuple[Cell, ...]]:
    for controller in found.controllers:
        begin = _begin(controller, found)
        # A controller that runs no kind also has a line.
        for share in controller.shares or (None,):
            yield *begin, *_of(share)
            begin = (None,) * len(begin)
    for share in found.unowned:
        yield Text("none", style="bold red"), None, None, None, None, *_of(share)


def _begin(controller: ControllerView, found: Ownership) -> tuple[Cell, ...]:
    life = controller.life(found.now)
    return (
        f"{controller.name} ({controller.id.hex[:8]})",
        Text(life.value, style=_COLOURS[life]),
        controller.release,
        output.ago(controller.started_at, found.now),
        f"{output.ago(controller.renewed_at, found.now)} ago",
    )


def _of(share: Share | None) -> tuple[Cell, Cell, Cell]:
    if share is None:
        return None, None, None
    lag = None if share.lag is None else duration.human(timedelta(seconds=share.lag))
    return share.kind, str(share.shards), lag
