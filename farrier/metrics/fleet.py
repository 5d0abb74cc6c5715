"""Gauges of the whole fleet, from the database: the same on every replica, and there right after a restart.

The daemon refreshes them before an exposition, at most every few seconds whoever asks. When the database
cannot be asked the last figures stay, and `farrier_fleet_collected_timestamp_seconds` says how old they
are.
"""

from __future__ import annotations

from collections.abc import Iterable

import anyio
import structlog
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from typing_extensions import override

from farrier.errors import DatabaseUnreachable
from farrier.metrics.definitions import KindWords
from farrier.model.bmc import BmcFailure
from farrier.model.views import Figures
from farrier.protocols import Clock, Queries

_log = structlog.stdlib.get_logger(__name__)

# Counting a large fleet costs the database something; rules are evaluated every 15 s at the most.
_AT_MOST_EVERY_SECONDS = 5.0


class FleetGauges(Collector):
    """A collector over the newest figures; without any until there are some."""

    def __init__(self, words: KindWords, clock: Clock) -> None:
        self._words = words
        self._clock = clock
        self._queries: Queries | None = None
        self._figures: Figures | None = None
        self._collected_at = float("-inf")
        self._one_at_a_time = anyio.Lock()

    def open(self, queries: Queries) -> None:
        """The database is there."""
        self._queries = queries

    async def refresh(self) -> None:
        """Have figures that are no older than a few seconds, if the database can be asked."""
        async with self._one_at_a_time:
            now = self._clock.monotonic()
            if self._queries is None or now - self._collected_at < _AT_MOST_EVERY_SECONDS:
                return
            self._collected_at = now
            try:
                self._figures = await self._queries.figures()
            except DatabaseUnreachable as error:
                _log.warning("fleet.not_counted", error=str(error))

    @override
    def collect(self) -> Iterable[GaugeMetricFamily]:
        figures = self._figures
        if figures is None:
            return
        yield self._resources(figures)
        yield _gauge("farrier_schedule_due", "Rows that are due and not claimed.", figures.due)
        yield _gauge("farrier_schedule_oldest_due_seconds", "Age of the oldest of them.", figures.oldest_due_seconds)
        yield _gauge("farrier_intents_pending", "Intents without an answer.", figures.intents_pending)
        yield _unread_power(figures)
        yield _gauge(
            "farrier_fleet_collected_timestamp_seconds", "When the fleet was counted.", figures.now.timestamp()
        )

    def _resources(self, figures: Figures) -> GaugeMetricFamily:
        family = GaugeMetricFamily("farrier_resources", "Resources by state.", labels=("kind", "state", "substate"))
        for layer, counts in figures.layers.items():
            label, states = self._words.layers.get(layer, (layer, ()))
            for state in dict.fromkeys((*states, *counts)):
                family.add_metric((label, state, ""), counts.get(state, 0))
        return family


def _unread_power(figures: Figures) -> GaugeMetricFamily:
    family = GaugeMetricFamily(
        "farrier_power_sync_failing", "Manageable nodes whose power cannot be read.", labels=("failure",)
    )
    for failure in dict.fromkeys((*map(str, BmcFailure), *figures.unread_power)):
        family.add_metric((failure,), figures.unread_power.get(failure, 0))
    return family


def _gauge(name: str, help_: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, help_, value=value)
