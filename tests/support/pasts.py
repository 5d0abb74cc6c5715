"""A random history, and the rows that a page of it should have."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from farrier.io.connections.pool import Connection
from farrier.io.queries.lists import PostgresQueries
from farrier.model.views.history import HistoryEntry, HistoryFilter, HistoryKey, Order

NODES = ("gpu-1", "gpu-2", "gpu-3")
SITE = "ams"
LAYERS = ("status", "management", "onboarding", "onboarding_stage")
STATES = ("active", "offline", "verifying", "error")
CAUSES = ("timer: heartbeat", "stage: deploy_via_maas", "signal: health", "register_node", "intent 7")

_INSERT = """
    INSERT INTO farrier.history (kind, id, version, layer, from_value, to_value, at, seconds_in_source, cause,
                                 requested_by, reason, source, controller, epoch)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, 1)
"""


async def make(conn: Connection, *, seed: int, versions: int, began: datetime) -> None:
    """Insert three nodes, a region, and for each resource `versions` versions of one or two layers; several
    resources move at the same moment, as they do in one commit."""
    chance = random.Random(seed)
    await conn.execute("SELECT farrier.register_node(name) FROM unnest($1::text[]) AS name", NODES)
    await conn.execute("INSERT INTO farrier.maas_regions (name, url) VALUES ($1, 'http://maas')", SITE)
    nodes = [record["id"] for record in await conn.fetch("SELECT id FROM farrier.nodes ORDER BY id")]
    region = await conn.fetchval("SELECT id FROM farrier.maas_regions")
    await conn.execute("TRUNCATE farrier.history")
    rows: list[tuple[Any, ...]] = []
    for version in range(1, versions + 1):
        at = began + timedelta(minutes=version // 2)
        for kind, id_ in [*(("node", id_) for id_ in nodes), ("maas_region", region), ("widget", 7)]:
            layers = chance.sample(LAYERS, chance.choice((1, 1, 2)))
            rows += [(kind, id_, version, layer, *_move(chance, at)) for layer in layers]
    chance.shuffle(rows)
    await conn.executemany(_INSERT, rows)


def _move(chance: random.Random, at: datetime) -> tuple[Any, ...]:
    first = chance.random() < 0.1
    return (
        None if first else chance.choice(STATES),
        chance.choice(STATES),
        at,
        None if first else chance.choice((0.5, 30.25, 7200.0)),
        chance.choice(CAUSES),
        chance.choice((None, "ann", "cy")),
        chance.choice(("No heartbeat for 3m", "the BMC does not answer", '"quoted" \\ \u00e9')),
        "x.py:1",
        UUID(int=chance.getrandbits(128)),
    )


async def table(conn: Connection) -> list[HistoryEntry]:
    """The whole history, as the table has it."""
    records = await conn.fetch(
        """
        SELECT h.*, coalesce(n.name, r.name, h.id::text) AS name
          FROM farrier.history h
          LEFT JOIN farrier.nodes n ON h.kind = 'node' AND n.id = h.id
          LEFT JOIN farrier.maas_regions r ON h.kind = 'maas_region' AND r.id = h.id
        """
    )
    return [
        HistoryEntry(
            source_state=record["from_value"],
            target_state=record["to_value"],
            controller=str(record["controller"]),
            **{name: record[name] for name in _PLAIN},
        )
        for record in records
    ]


_PLAIN = (
    "kind",
    "id",
    "version",
    "layer",
    "name",
    "at",
    "seconds_in_source",
    "cause",
    "requested_by",
    "reason",
    "source",
)


def by_time(past: HistoryEntry) -> tuple[Any, ...]:
    """The key that orders changes by time, and changes of one moment by resource, version and layer."""
    return past.at, past.id, past.version, past.kind, past.layer


async def walk(
    queries: PostgresQueries, wanted: HistoryFilter, order: Order, *, limit: int = 1000
) -> Sequence[HistoryEntry]:
    """Read all pages."""
    found: list[HistoryEntry] = []
    after: HistoryKey | None = None
    while True:
        page = await queries.history(wanted, order=order, after=after, limit=limit)
        assert len(page.changes) <= limit
        found += page.changes
        if page.following is None:
            return found
        after = page.following
