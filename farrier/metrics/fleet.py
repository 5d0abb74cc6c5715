"""Gauges of the whole fleet, counted in the database. The figures are the same on every replica, and available right
after a restart.

The daemon calls `run`. A scrape requests new figures and waits briefly for them. The fleet is counted at most every few
seconds for all scrapers together, and less often while counting is slow. Without a scrape, nothing is counted. A
cancelled scrape does not cancel a count. While the database is unreachable, the last figures stay and are never
replaced by zeros; `farrier_fleet_collected_timestamp_seconds` shows their age. If a count fails, the daemon continues,
and a scrape still returns the other metrics.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import anyio
import structlog
from anyio.abc import TaskStatus
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from typing_extensions import override

from farrier.errors import FarrierError
from farrier.metrics import gauges
from farrier.metrics.families import Gauge, Labels
from farrier.model.kinds.spec import label
from farrier.model.loop.doors import DoorKind, DoorState, LostPulse
from farrier.model.loop.outcome import EndsBy
from farrier.model.machine.bmc import BmcFailure, PowerState
from farrier.model.node.conditions import NAMES
from farrier.model.node.failures import FailureClass
from farrier.model.node.layers import NODE
from farrier.model.node.limits import PLACES, STATES, ClockedState, Limits, kind_rules, rules
from farrier.model.views.census import AgentHealth, Census, ObservationSource, Rules
from farrier.protocols import Clock, ServerQueries

_log = structlog.stdlib.get_logger(__name__)

# Shortest pause between two counts. A count of a large fleet takes time of the database, and Prometheus evaluates rules
# at most every 15 s.
_AT_MOST_EVERY_SECONDS = 5.0
# A count may take 0.05 s for each scrape, with a scrape every 15 s. A longer count, as when half of the fleet is late,
# serves several scrapes, so that counting takes the same share of time. A count serves scrapes for at most a minute,
# because alerts need recent figures.
_SCRAPE_SECONDS = 0.05
_SCRAPED_EVERY_SECONDS = 15.0
_AT_LEAST_EVERY_SECONDS = 60.0
# How long a scrape waits for new figures before it reports the last ones. This is well under Prometheus' time-out of
# 10 s, so that a replica reports its other metrics during an outage, too.
_PATIENCE_SECONDS = 3.0
# The server cancels a count after 30 s. After that time and the time to connect, no result can come.
_GIVEN_UP_AFTER_SECONDS = 45.0


class FleetGauges(Collector):
    """Exposes the newest figures. Before the first count, it exposes no figures of the fleet."""

    def __init__(
        self,
        rules: Rules,
        clock: Clock,
        *,
        patience: float = _PATIENCE_SECONDS,
        give_up_after: float = _GIVEN_UP_AFTER_SECONDS,
    ) -> None:
        self._rules = rules
        self._clock = clock
        self._patience = patience
        self._give_up_after = give_up_after
        self._is_counting = False
        self._census: Census | None = None
        self._fresh_until = float("-inf")
        self._wanted = anyio.Event()
        # Set at the end of the running count, or of the next count if none is running.
        self._counted = anyio.Event()

    async def run(self, queries: ServerQueries, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Count the fleet on request, until cancelled. `queries` needs a separate connection."""
        self._is_counting = True
        task_status.started()
        try:
            while True:
                await self._wanted.wait()
                began = self._clock.monotonic()
                await self._count(queries)
                ended = self._clock.monotonic()
                self._fresh_until = ended + _rest(ended - began)
                self._end()
        finally:
            self._is_counting = False
            self._end()

    def _end(self) -> None:
        ended = self._counted
        self._wanted, self._counted = anyio.Event(), anyio.Event()
        ended.set()

    async def refresh(self) -> None:
        """Refresh the figures if they are older than a few seconds. If the database responds too late, the next
        exposition has the new figures."""
        is_fresh = self._clock.monotonic() < self._fresh_until
        if not self._is_counting or (is_fresh and not self._wanted.is_set()):
            return
        self._wanted.set()
        with anyio.move_on_after(self._patience) as scope:
            await self._counted.wait()
        if scope.cancelled_caught:
            _log.warning(
                "fleet.late",
                error=f"the count took longer than {self._patience:g} s; the metrics keep the last figures",
            )

    async def _count(self, queries: ServerQueries) -> None:
        try:
            with anyio.fail_after(self._give_up_after):
                self._census = await queries.census(self._rules)
        except (FarrierError, TimeoutError) as error:
            _log.warning("fleet.not_counted", error=str(error) or f"no response within {self._give_up_after:g} s")
        except Exception as error:  # an error in a figure must not end the daemon or hide the metrics that report it
            _log.error("fleet.not_counted", exc_info=error)

    @override
    def collect(self) -> Iterable[GaugeMetricFamily]:
        limits = self._rules.limits.everywhere
        in_force = {_labels(place): limits.get(place.key, place.default) for place in PLACES}
        values = {labels: limit.total_seconds() for labels, limit in in_force.items() if limit is not None}
        census = self._census
        if census is not None:  # a process has only the kinds that it runs; the database has all registered kinds
            values |= {(each.kind, each.state, each.substate): each.seconds for each in census.kind_limits}
        yield gauges.STATE_SLA.family(values)
        yield gauges.COLLECTED.family({(): 0.0 if census is None else census.now.timestamp()})
        if census is not None:
            yield from _of_states(census, self._rules.limits)
            yield from _of_shards(census)
            yield from _of_counts(census)


def _rest(took: float) -> float:
    """Return the pause in seconds after a count that took `took` seconds."""
    if took <= _SCRAPE_SECONDS:
        return _AT_MOST_EVERY_SECONDS
    return min(_SCRAPED_EVERY_SECONDS * took / _SCRAPE_SECONDS, _AT_LEAST_EVERY_SECONDS)


def _of_states(census: Census, limits: Limits) -> Iterator[GaugeMetricFamily]:
    """Yield the figures by state. A state of a newer release or of another package's kind is reported like any other
    state."""
    counts = dict.fromkeys(map(_labels, STATES), 0.0)
    oldest = dict(counts)
    for place in census.places:
        labels = (place.kind, place.state, place.substate)
        counts[labels], oldest[labels] = place.count, place.oldest
    above = dict.fromkeys(_limited(census, limits), 0.0)
    above |= {(late.kind, late.state, late.substate): late.count for late in census.above}
    yield gauges.RESOURCES.family(counts)
    yield gauges.OLDEST_IN_STATE.family(oldest)
    yield gauges.ABOVE_SLA.family(above)
    yield gauges.RESOURCE_ABOVE_SLA.family(
        {(late.name, late.resource_kind, late.kind, late.state, late.substate): late.seconds for late in census.worst}
    )


def _limited(census: Census, limits: Limits) -> Iterator[Labels]:
    """Yield the clocks that have a limit, either for all resources or for the resources of a site or a model. No other
    clock can be above a limit."""
    yield from ((rule.kind, rule.state, rule.substate) for rule in rules(limits))
    yield from ((each.kind, each.state, each.substate) for each in census.kind_limits)
    kinds = {place.kind for place in census.places}
    yield from ((rule.kind, *label(rule.state)) for rule in kind_rules(limits) if rule.kind in kinds)


def _of_shards(census: Census) -> Iterator[GaugeMetricFamily]:
    owned: dict[Labels, float] = {}
    unowned: dict[Labels, float] = {}
    oldest: dict[Labels, float] = {}
    for each in sorted(census.shards, key=lambda each: (each.kind, each.controller)):
        of_kind = (each.kind,)
        oldest[of_kind] = max(oldest.get(of_kind, 0.0), each.lag)
        if each.controller:
            owned[each.kind, each.controller] = each.count
        unowned[of_kind] = unowned.get(of_kind, 0.0) + (0 if each.controller else each.count)
    yield gauges.SHARDS.family(owned)
    yield gauges.SHARDS_UNOWNED.family(unowned)
    yield gauges.OLDEST_SWEEP.family(oldest)


def _of_counts(census: Census) -> Iterator[GaugeMetricFamily]:
    yield gauges.WAKES_PENDING.family({(): census.wakes})
    yield gauges.RESOURCES_FAILING.family({(each.kind, each.error): each.count for each in census.failing})
    waiting: dict[Labels, float] = {(NODE, str(ends_by)): 0 for ends_by in EndsBy}
    waiting |= {(each.kind, each.ends_by): each.count for each in census.waiting}
    yield gauges.RESOURCES_WAITING.family(waiting)
    yield gauges.INTENTS_PENDING.family({(): census.intents_pending})
    yield gauges.INTENTS_OLDEST_PENDING.family({(): census.oldest_intent})
    yield _by_word(gauges.MANUAL_INTERVENTION, FailureClass, census.manual)
    yield _by_word(gauges.NODES_BY_HEALTH, AgentHealth, census.health)
    yield gauges.NODES_BY_ALERT.family({(alert,): count for alert, count in census.alerts.items()})
    yield _by_word(gauges.NODES_BY_POWER, PowerState, census.power)
    yield gauges.NODES_SAME_MACHINE.family({(): census.same_machine})
    yield gauges.BRAKES_HOLDING.family({(): census.brakes_holding})
    yield gauges.RESOURCES_RESTORED.family({(kind,): count for kind, count in census.restored.items()})
    yield gauges.NODES_PAUSED.family({(): census.paused})
    yield gauges.HEARTBEATS_STALE.family({(): census.heartbeats_stale})
    doors: dict[Labels, float] = {(kind, state): 0 for kind in DoorKind for state in DoorState}
    doors |= {(d.kind, DoorState.ALIVE if d.alive else DoorState.SILENT): d.count for d in census.doors}
    yield gauges.DOORS.family(doors)
    dead: dict[Labels, float] = {(pulse,): 0 for pulse in LostPulse}
    yield gauges.DOORS_DEAD.family(dead | {(pulse,): seconds for pulse, seconds in census.doors_dead.items()})
    yield gauges.AGENT_REACHED.family({(): census.agent_reached})
    yield _by_word(gauges.OBSERVATIONS_STALE, ObservationSource, census.observations_stale)
    yield _by_word(gauges.NODE_CONDITIONS, NAMES, census.conditions)
    yield gauges.CONDITION_NOTES_DROPPED.family({(source,): n for source, n in census.condition_drops.items()})
    stated: dict[Labels, float] = {}
    for each in census.monitors:
        stated |= {(each.monitor, "known"): each.known, (each.monitor, "unknown"): each.unknown}
    yield gauges.MONITOR_CONDITIONS.family(stated)
    yield gauges.MONITOR_REFUSED.family({(each.monitor,): each.refused for each in census.monitors})
    yield gauges.MAAS_STATUS_UNKNOWN.family({(): census.maas_status_unknown})
    yield _by_word(gauges.POWER_SYNC_FAILING, BmcFailure, census.unread_power)


def _by_word(gauge: Gauge, known: Iterable[str], found: Mapping[str, int]) -> GaugeMetricFamily:
    """Return a figure for each known word, even if its count is zero, and for each word that only a newer release
    knows."""
    return gauge.family({(word,): found.get(word, 0) for word in dict.fromkeys((*known, *found))})


def _labels(place: ClockedState) -> Labels:
    return place.kind, place.state, place.substate
