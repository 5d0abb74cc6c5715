"""Counts what the loop and the service clients report: `protocols.MetricsSink` and `protocols.ServiceObserver` in one.

Never blocks and never raises. A label that the vocabulary lacks makes a new series; an undeclared sample of a kind's
metric makes none and is logged.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping, Sequence

import structlog
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector, CollectorRegistry
from typing_extensions import override

import farrier
from farrier import errors, protocols
from farrier.metrics import definitions, gauges
from farrier.metrics.definitions import OwnMetric, Vocabulary
from farrier.metrics.families import Counter, Definition, Gauge, Histogram, Labels
from farrier.model.measures import Sample
from farrier.model.runs import Verdict

_log = structlog.stdlib.get_logger(__name__)

OUTCOMES = ("transition", "update", "wait", "do_nothing", "deleted", "error")
WAKE_SOURCES = ("notify", "poll")
# A resource whose snapshot could not be read has no state to show.
UNKNOWN = ("unknown", "")


class PrometheusSink(protocols.MetricsSink, protocols.ServiceObserver):
    """The counters and histograms of one process, in a registry of its own."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.registry = CollectorRegistry(auto_describe=False)
        self._words = vocabulary
        self._entered = self._counter(definitions.STATE_ENTERED)
        self._exited = self._counter(definitions.STATE_EXITED)
        self._time_in_state = self._histogram(definitions.TIME_IN_STATE)
        self._runs = self._counter(definitions.HANDLER_RUNS)
        self._duration = self._histogram(definitions.HANDLER_DURATION)
        self._errors = self._counter(definitions.HANDLER_ERRORS)
        self._rerun_limited = self._counter(definitions.RERUN_LIMITED)
        self._wakeups = self._counter(definitions.WAKEUPS)
        self._wake_wait = self._histogram(definitions.WAKE_WAIT)
        self._conflicts = self._counter(definitions.COMMIT_CONFLICTS)
        self._steps_cut = self._counter(definitions.STEPS_CUT)
        self._requests = self._counter(definitions.SERVICE_REQUESTS)
        self._request_duration = self._histogram(definitions.SERVICE_DURATION)
        self._own = {
            (kind, own.sample): (own.definition, self._of(own))
            for kind, words in vocabulary.kinds.items()
            for own in words.metrics
        }
        self.registry.register(_Build())
        self._make_zeros()

    @override
    def ran(self, kind: str, runs: Mapping[str, Sequence[float]]) -> None:
        for outcome, seconds in runs.items():
            self._runs.add((kind, outcome), len(seconds))
            self._duration.observe((kind,), seconds)

    @override
    def failed(self, kind: str, state: str, substate: str, error: str) -> None:
        self._errors.add((kind, state, substate, error))

    @override
    def moved(self, kind: str, layer: str, source: str | None, target: str, seconds: float | None) -> None:
        label = self._label_of(kind, layer)
        self._entered.add((label, target))
        if source is not None:
            self._exited.add((label, source))
            if seconds is not None:
                self._time_in_state.observe((label, source), (seconds,))

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
    def step_cut(self, kind: str) -> None:
        self._steps_cut.add((kind,))

    @override
    def rerun_limited(self, kind: str) -> None:
        self._rerun_limited.add((kind,))

    @override
    def woken(self, source: str) -> None:
        self._wakeups.add((source,))

    @override
    def requested(self, service: str, operation: str, result: str, seconds: float) -> None:
        self._requests.add((service, operation, result))
        self._request_duration.observe((service, operation), (seconds,))

    def _of(self, own: OwnMetric) -> Counter | Histogram:
        family = self._histogram(own.definition) if own.definition.buckets else self._counter(own.definition)
        family.exist(own.series)
        return family

    def _counter(self, definition: Definition) -> Counter:
        counter = Counter(definition)
        self.registry.register(counter)
        return counter

    def _histogram(self, definition: Definition) -> Histogram:
        histogram = Histogram(definition)
        self.registry.register(histogram)
        return histogram

    def _label_of(self, kind: str, layer: str) -> str:
        words = self._words.kinds.get(kind)
        return words.layers[layer][0] if words is not None and layer in words.layers else layer

    def _make_zeros(self) -> None:
        kinds = tuple(self._words.kinds)
        for family in (self._entered, self._exited, self._time_in_state):
            family.exist(self._states())
        self._runs.exist((kind, outcome) for kind in kinds for outcome in OUTCOMES)
        self._errors.exist(self._failures())
        lost = [verdict for verdict in Verdict if verdict not in (Verdict.COMMITTED, Verdict.LOCKED)]
        self._conflicts.exist((kind, verdict.value) for kind in kinds for verdict in lost)
        for per_kind in (self._duration, self._wake_wait, self._steps_cut, self._rerun_limited):
            per_kind.exist((kind,) for kind in kinds)
        self._wakeups.exist((source,) for source in WAKE_SOURCES)
        services = self._words.services.items()
        self._requests.exist(
            (name, operation, result)
            for name, words in services
            for operation in words.operations
            for result in words.results
        )
        self._request_duration.exist((name, operation) for name, words in services for operation in words.operations)

    def _states(self) -> Iterator[Labels]:
        for words in self._words.kinds.values():
            for label, states in words.layers.values():
                yield from ((label, state) for state in states)

    def _failures(self) -> Iterator[Labels]:
        for kind, words in self._words.kinds.items():
            for state, substate in (*words.labels, UNKNOWN):
                yield from ((kind, state, substate, label) for label in run_error_labels())


class Constant(Collector):
    """A gauge that is set once, at the start of the process."""

    def __init__(self, gauge: Gauge, value: float) -> None:
        self._family = gauge.family({(): value})

    @override
    def collect(self) -> list[GaugeMetricFamily]:
        return [self._family]


class _Build(Collector):
    """`farrier_build_info`: the versions of farrier and Python, as labels of a constant."""

    @override
    def collect(self) -> list[GaugeMetricFamily]:
        return [gauges.BUILD_INFO.family({(farrier.__version__, platform.python_version()): 1})]


def run_error_labels() -> tuple[str, ...]:
    """The labels of all errors that may end a run: errors of the handler, of a service, and unexpected errors."""
    ends_a_run = (errors.HandlerError, errors.ServiceError)
    single = (errors.CredentialError, errors.RefusedByModel, errors.InternalError)
    return tuple(
        sorted({error.label for root in ends_a_run for error in _tree(root)} | {error.label for error in single})
    )


def _tree(root: type[errors.FarrierError]) -> Iterator[type[errors.FarrierError]]:
    yield root
    for branch in root.__subclasses__():
        yield from _tree(branch)
