"""Counts the fleet in one statement, so that all figures belong to the same moment.

Module `queries` calls this module. The statement has a time limit and no parallel workers, so that it does not slow
other statements.
"""

from __future__ import annotations

from typing import Any

from farrier.io import statements
from farrier.io.connections.pool import Connection
from farrier.io.queries import reading
from farrier.model.node import limits
from farrier.model.node.conditions import NAMES
from farrier.model.node.limits import KindRule, LimitRule, Limits
from farrier.model.views.census import ALERTS_NAMED, FAILING_AFTER, Rules

_CENSUS = statements.load("queries/census")

# Counting 100,000 nodes takes less than 50 ms. The time limit is hundreds of times longer, because operators need the
# figures most when the database is overloaded. Figures that arrive later than this limit would be outdated anyway.
# Parallel workers would take CPUs from the loop's statements.
_BOUNDS = "SET LOCAL statement_timeout = '30s'; SET LOCAL max_parallel_workers_per_gather = 0"


async def take(conn: Connection, rules: Rules) -> str:
    """Return a `Census` as JSON."""
    async with conn.transaction(readonly=True):
        await conn.execute(_BOUNDS)
        counted: str = await conn.fetchval(
            _CENSUS,
            *node_columns(rules.limits),
            rules.offline_after,
            rules.observation_ttl,
            rules.name_at_most,
            *kind_columns(rules.limits),
            ALERTS_NAMED,
            FAILING_AFTER,
            list(NAMES),
        )
    return counted


def node_columns(held: Limits) -> tuple[list[Any], ...]:
    """Return the limits of nodes and their workflows as arrays, which statements take as arguments."""
    *columns, lasts = reading.transposed(tuple(limits.rules(held)), LimitRule)
    return *columns, reading.texts(lasts)


def kind_columns(held: Limits) -> tuple[list[Any], ...]:
    """Return the limits of registered kinds in the form that `farrier.count_resources` takes."""
    *columns, lasts = reading.transposed(tuple(limits.kind_rules(held)), KindRule)
    return *columns, reading.texts(lasts)
