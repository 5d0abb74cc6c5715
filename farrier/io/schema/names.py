"""Finds objects in farrier's schema that an operator created and that have the same name as an object of the set.

The migration checks for such objects before it creates an object; so does its plan. An unrecorded object does not
belong to farrier. If the migration finds such an object, it refuses to run and names the object; it never replaces or
drops the object.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec
from typing_extensions import override

from farrier import errors
from farrier.io import statements
from farrier.io.schema.files import SchemaObject

if TYPE_CHECKING:
    from farrier.io.connections.pool import Connection

_NAMESAKES = statements.load("schema/namesakes")
_RENAME = "Rename or drop the object, then migrate."


class Obstacle(msgspec.Struct, frozen=True):
    """An object that does not belong to the set and blocks a migration. `conflict` is the reason. `unless` is the
    condition under which the object does not block the migration; if the conflict is certain, `unless` is empty."""

    description: str
    conflict: str
    unless: str = ""

    @override
    def __str__(self) -> str:
        unless = f", unless {self.unless}" if self.unless else ""
        return f"{self.description} {self.conflict}{unless}"


async def namesakes(
    conn: Connection, wanted: Sequence[SchemaObject], recorded: Collection[tuple[str, str]], *, unless: str = ""
) -> list[Obstacle]:
    """Return the objects that have the name of an object that a migration would create, but do not belong to farrier
    or have another type. Writes nothing."""
    rows = await conn.fetch(
        _NAMESAKES,
        [each.kind for each in wanted],
        [each.name for each in wanted],
        [each.key in recorded for each in wanted],
    )
    return [Obstacle(row["description"], f"has the same name as {row['object']} of farrier", unless) for row in rows]


def refuse(found: Iterable[Obstacle], *, hint: str = _RENAME) -> None:
    """Raise RefusedByModel if the conflict with one of these objects is certain."""
    if certain := [str(each) for each in found if not each.unless]:
        raise errors.RefusedByModel("; ".join(certain), hint=hint)
