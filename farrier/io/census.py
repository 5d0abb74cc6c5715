"""Counts the fleet: one statement, so all figures are of one moment.

Called by `queries`. Never takes long at the cost of others: the statement has a time-out, and no helpers.
"""

from __future__ import annotations

from typing import Any

from farrier.io import statements
from farrier.io.pool import Connection
from farrier.model import limits
from farrier.model.census import ALERTS_NAMED, FAILING_AFTER, Rules
from farrier.model.limits import Limits

_CENSUS = statements.load("queries/census")

# 100,000 nodes are counted in less than 50 ms. A database that is so busy that it takes hundreds of times as long is
# when the figures are needed the most; what takes longer than this is about to be too old anyway.
# Helpers would take processors from the loop's own statements to be done a little sooner.
_BOUNDS = "SET LOCAL statement_timeout = '30s'; SET LOCAL max_parallel_workers_per_gather = 0"


async def take(conn: Connection, rules: Rules) -> str:
    """A `Census` as JSON."""
    async with conn.transaction(readonly=True):
        await conn.execute(_BOUNDS)
        counted: str = await conn.fetchval(_CENSUS, *_columns(rules))
    return counted


def _columns(rules: Rules) -> tuple[Any, ...]:
    return (
        *node_columns(rules.limits),
        rules.offline_after,
        rules.observation_ttl,
        rules.name_at_most,
        *kind_columns(rules.limits),
        ALERTS_NAMED,
        FAILING_AFTER,
    )


def node_columns(held: Limits) -> tuple[list[Any], ...]:
    """Limits of nodes, their workflows and regions, as statements take them."""
    found = tuple(limits.rules(held))
    return (
        [rule.place.kind for rule in found],
        [rule.place.state for rule in found],
        [rule.place.substate for rule in found],
        [rule.scope for rule in found],
        [rule.name for rule in found],
        [rule.lasts for rule in found],
    )


def kind_columns(held: Limits) -> tuple[list[Any], ...]:
    """Limits of registered kinds as `farrier.count_resources` takes them."""
    found = tuple(limits.kind_rules(held))
    return (
        [rule.kind for rule in found],
        [rule.state for rule in found],
        [rule.scope for rule in found],
        [rule.name for rule in found],
        [rule.lasts for rule in found],
    )
