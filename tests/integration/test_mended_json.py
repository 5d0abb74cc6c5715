"""The clock is set back: no JSON that farrier stores keeps a time in the future, in any field of the model."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any

import msgspec

from farrier.io.connections.pulse import PostgresPulse
from farrier.model.maas.region import MaasRegion
from farrier.model.node.snapshot import Decommission, Node, Onboarding
from tests.support import pg

BACK = timedelta(hours=2)

# Columns with data of clients and agents, and a time of a region's clock, which are not mended.
OF_OTHERS = ("labels", "params", "facts", "health", "options", "result", "value", "detail", "cursor")
OF_THE_REGION = "synced_at"

COLUMNS = """
    SELECT 'farrier.' || c.relname AS relation, a.attname::text AS name
      FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
     WHERE c.relnamespace = 'farrier'::regnamespace AND c.relkind = 'r' AND a.attnum > 0
       AND a.atttypid = 'jsonb'::regtype AND a.attname <> ALL ($1)
"""


def filled(kind: Any, at: datetime) -> Any:
    """A value of this type in which every time is `at`, also in nested values."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return filled(args[0], at)
    if origin in (typing.Union, types.UnionType):
        # For a union, take the alternative with the most times.
        return max((filled(arg, at) for arg in args), key=lambda made: len(list(times(msgspec.to_builtins(made)))))
    if kind is datetime:
        return at
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        fields = {field.name: filled(field.type, at) for field in msgspec.structs.fields(kind)}
        return kind(**fields)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return next(iter(kind))
    if origin is tuple:
        return (filled(args[0], at),)
    if origin is not None and issubclass(origin, typing.Mapping):
        return {"x": filled(args[1], at)}
    if origin is not None and issubclass(origin, frozenset):
        return frozenset()
    return {str: "x", int: 1, bool: True, float: 1.0}.get(kind)


def times(value: Any, key: str = "") -> Iterator[tuple[str, datetime]]:
    """Every time in a JSON value, with the nearest key."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from times(inner, name)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from times(inner, key)
    elif isinstance(value, str) and value[4:5] == "-" and "T" in value:
        yield key, datetime.fromisoformat(value)


def stored(whole: Any) -> dict[str, Any]:
    built: dict[str, Any] = msgspec.to_builtins(whole)
    return built


async def test_no_field_of_the_model_stays_in_the_future(db: pg.Database) -> None:
    async with db.connect() as conn:
        await conn.execute("SELECT farrier.register_node('gpu-1')")
        await conn.execute("INSERT INTO farrier.maas_regions (name, url) VALUES ('fra', 'http://maas')")
        at = (await db.now()).astimezone(UTC)
        rows = {
            "farrier.nodes": stored(filled(Node, at)),
            "farrier.node_onboardings": stored(filled(Onboarding, at)),
            "farrier.node_decommissions": stored(filled(Decommission, at)),
            "farrier.maas_regions": stored(filled(MaasRegion, at)),
        }
        columns = [(one["relation"], one["name"]) for one in await conn.fetch(COLUMNS, list(OF_OTHERS))]
        await conn.execute("SET session_replication_role = replica")
        await conn.execute(
            "INSERT INTO farrier.node_decommissions (node_id, mode, status) VALUES (1, 'reimage', 'completed')"
        )
        put = set[str]()
        for relation, name in columns:
            value = rows.get(relation, {}).get(name)
            if value is not None:
                text = msgspec.json.encode(value).decode()
                await conn.execute(f"UPDATE {relation} SET {name} = $1::text::jsonb", text)
                put |= {key for key, _ in times(value)}
        await conn.execute("SET session_replication_role = origin")
        assert {"at", "power_at", "tries", "trying", "next_sync_at", "asked_at", "took_at"} <= put
        async with db.pool(1) as connections:
            pulse = PostgresPulse(connections)
            await pulse.beat()
            await db.advance(-BACK)
            assert await pulse.beat() is not None
            while (await pulse.mend()).more:
                pass
        now = await db.now()
        ahead = [
            f"{relation}.{name}: {key}"
            for relation, name in columns
            for record in await conn.fetch(f"SELECT {name}::text AS value FROM {relation}")
            if record["value"] is not None
            for key, time in times(msgspec.json.decode(record["value"]), name)
            if time > now and key != OF_THE_REGION
        ]
        assert ahead == []
