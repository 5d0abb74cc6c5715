"""Counts the reports of the loop and of the service clients. Implements both `protocols.MetricsSink` and
`protocols.ServiceObserver`.

The sink never blocks and never raises. A label value that the vocabulary lacks creates a new series. If a sample names
a metric that its kind did not declare, no series is created, and the sample is logged. A failed request is logged with
its service, operation and failure class, all from finite sets, and never with its content; the loop's log context names
the node.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence

import structlog
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector, CollectorRegistry
from typing_extensions import override

import farrier
from farrier import protocols
from farrier.metrics import definitions, gauges
from farrier.metrics.definitions import OwnMetric, Vocabulary
from farrier.metrics.families import Counter, Definition, Gauge, Histogram
from farrier.model.kinds.measures import Sample
from farrier.model.kinds.spec import KindSpec
from farrier.model.loop.runs import CommitVerdict, Failure, Move, is_requested

_log = structlog.stdlib.get_logger(__name__)

OUTCOMES = ("transition", "update", "wait", "do_nothing", "deleted", "error")
WAKE_SOURCES = ("notify", "poll")
# The results of requests that are not logged. farrier cancels requests itself, and their runs record the reason.
_NO_FAILURE = frozenset({"ok", "cancelled"})


class RequestSink(protocols.ServiceObserver):
    """The counters of a process that runs no loop, in a separate registry. `services` has the possible results of each
    operation, by service."""

    def __init__(self, services: Mapping[str, Mapping[str, Sequence[str]]]) -> None:
        self.registry = CollectorRegistry(auto_describe=False)
        self._services = services
        self._requests = self._counter(definitions.SERVICE_REQUESTS)
        self._request_duration = self._histogram(definitions.SERVICE_DURATION)
        self.registry.register(Constant(gauges.BUILD_INFO, 1, farrier.__version__, platform.python_version()))

    @override
    def requested(self, service: str, operation: str, result: str, seconds: float) -> None:
        if (service, operation) not in self._request_duration:
            results = self._services.get(service, {}).get(operation, ())
            self._requests.exist((service, operation, each) for each in results)
        self._requests.add((service, operation, result))
        self._request_duration.observe((service, operation), (seconds,))
        if result not in _NO_FAILURE:
            _log.warning("request.failed", service=service, operation=operation, result=result)

    def _counter(self, definition: Definition) -> Counter:
        counter = Counter(definition)
        self.registry.register(counter)
        return counter

    def _histogram(self, definition: Definition) -> Histogram:
        histogram = Histogram(definition)
        self.registry.register(histogram)
        return histogram


class PrometheusSink(RequestSink, protocols.MetricsSink):
    """The counters and histograms of a controller. If `named` is set, exemplars name resources."""

    def __init__(self, vocabulary: Vocabulary, *, named: bool = True) -> None:
        super().__init__(vocabulary.services)
        self._words = vocabulary
        self._layers = {
            (kind, layer.name): layer for kind, words in vocabulary.kinds.items() for layer in words.spec.every_layer
        }
        self._named = named
        self._entered = self._counter(definitions.STATE_ENTERED)
        self._exited = self._counter(definitions.STATE_EXITED)
        self._time_in_state = self._histogram(definitions.TIME_IN_STATE)
        self._short_stays = self._counter(definitions.SHORT_STAYS)
        self._runs = self._counter(definitions.HANDLER_RUNS)
        self._duration = self._histogram(definitions.HANDLER_DURATION)
        self._errors = self._counter(definitions.HANDLER_ERRORS)
        self._errors_by_state = self._counter(definitions.HANDLER_ERRORS_BY_STATE)
        self._rerun_limited = self._counter(definitions.RERUN_LIMITED)
        self._wakeups = self._counter(definitions.WAKEUPS)
        self._wake_wait = self._histogram(definitions.WAKE_WAIT)
        self._conflicts = self._counter(definitions.COMMIT_CONFLICTS)
        self._deferred = self._counter(definitions.COMMITS_DEFERRED)
        self._steps_cancelled = self._counter(definitions.STEPS_CANCELLED)
        self._own = {
            (kind, own.sample): (own.definition, self._of(own))
            for kind, words in vocabulary.kinds.items()
            for own in words.metrics
        }
        self._make_zeros()

    @override
    def ran(self, kind: str, runs: Mapping[str, Sequence[float]]) -> None:
        for outcome, seconds in runs.items():
            self._runs.add((kind, outcome), len(seconds))
            self._duration.observe((kind,), seconds)

    @override
    def failed(self, kind: str, failure: Failure) -> None:
        name = self._shown(failure.name)
        self._errors.add((kind, failure.error), name=name)
        self._errors_by_state.add((kind, failure.state, failure.substate), name=name)

    @override
    def moved(self, kind: str, name: str | None, move: Move, seconds: float | None, cause: str) -> None:
        layer = self._layers.get((kind, move.layer))
        label = layer.label if layer is not None else move.layer
        self._entered.add((label, move.target))
        if move.source is None:
            return
        self._exited.add((label, move.source))
        if seconds is None:
            return
        self._time_in_state.observe_of(self._shown(name), (label, move.source), seconds)
        words, short = self._words.kinds.get(kind), seconds < definitions.SHORT_STAY.total_seconds()
        if words is not None and short and _left_normal_state(words.spec, move, cause):
            self._short_stays.add((label, move.source), name=self._shown(name))

    @override
    def sampled(self, kind: str, samples: Sequence[Sample]) -> None:
        for sample in samples:
            definition, family = self._own.get((kind, sample.metric), (None, None))
            names = () if definition is None else definition.labels
            values = tuple(str(sample.labels.get(name)) for name in names)
            if family is None or sample.labels.keys() != set(names) or values not in family:
                _log.warning("metric.undeclared", kind=kind, metric=sample.metric, labels=dict(sample.labels))
            elif isinstance(family, Counter):
                family.add(values, sample.value)
            else:
                family.observe(values, (sample.value,))

    @override
    def waited(self, kind: str, seconds: Sequence[float]) -> None:
        self._wake_wait.observe((kind,), seconds)

    @override
    def conflicted(self, kind: str, verdict: str) -> None:
        self._conflicts.add((kind, verdict))

    @override
    def deferred(self, kind: str) -> None:
        self._deferred.add((kind,))

    @override
    def step_cancelled(self, kind: str) -> None:
        self._steps_cancelled.add((kind,))

    @override
    def rerun_limited(self, kind: str) -> None:
        self._rerun_limited.add((kind,))

    @override
    def woken(self, source: str) -> None:
        self._wakeups.add((source,))

    def _shown(self, name: str | None) -> str | None:
        return name if self._named else None

    def _of(self, own: OwnMetric) -> Counter | Histogram:
        family = self._histogram(own.definition) if own.definition.buckets else self._counter(own.definition)
        family.exist(own.series)
        return family

    def _make_zeros(self) -> None:
        kinds = tuple(self._words.kinds)
        layers, specs = self._layers.values(), [words.spec for words in self._words.kinds.values()]
        self._entered.exist((layer.label, state) for layer in layers for state in layer.entered)
        for left in (self._exited, self._time_in_state):
            left.exist((layer.label, state) for layer in layers for state in layer.left)
        self._short_stays.exist((spec.name, str(spec.steady)) for spec in specs if spec.steady)
        self._runs.exist((kind, outcome) for kind in kinds for outcome in OUTCOMES)
        self._errors.exist((kind, error) for kind, words in self._words.kinds.items() for error in words.errors)
        lost = [
            verdict.value
            for verdict in CommitVerdict
            if verdict not in {CommitVerdict.COMMITTED, CommitVerdict.DEFERRED}
        ]
        self._conflicts.exist((kind, verdict) for kind in kinds for verdict in lost)
        for per_kind in (self._duration, self._wake_wait, self._deferred, self._steps_cancelled, self._rerun_limited):
            per_kind.exist((kind,) for kind in kinds)
        self._wakeups.exist((source,) for source in WAKE_SOURCES)


def _left_normal_state(spec: KindSpec, move: Move, cause: str) -> bool:
    """Return whether the resource left its normal state, although no intent requested this. If an edge belongs to the
    operator, such as the edge to `draining`, a transition along it always follows from an intent."""
    if (move.layer, move.source) != (spec.layer, spec.steady) or is_requested(cause):
        return False
    return (move.source, move.target) not in {
        (edge.source, edge.target) for edge in spec.edges if edge.owner == "operator"
    }


class Constant(Collector):
    """A gauge with one series that is set only at the start of the process."""

    def __init__(self, gauge: Gauge, value: float, *labels: str) -> None:
        self._family = gauge.family({labels: value})

    @override
    def collect(self) -> list[GaugeMetricFamily]:
        return [self._family]
