"""Counters and histograms that record many observations in one call.

The loop reports tens of thousands of runs a second, in batches, from the single thread of the event loop. The metrics
of the client library need a lock and a call for each observation; a dictionary of plain numbers needs neither. The same
thread also reads the numbers. `Counter` and `Histogram` are collectors for a `CollectorRegistry`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence

import msgspec
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar
from typing_extensions import override

Labels = tuple[str, ...]

# OpenMetrics allows 128 characters in the names and values of an exemplar's labels.
_LONGEST_NAME = 128 - len("name")


class Definition(msgspec.Struct, frozen=True):
    """The definition of one metric: its name (without the suffix `_total`), its help text, and the names of its labels.
    `buckets` are upper bounds in seconds; a counter has no buckets."""

    name: str
    help: str
    labels: Labels
    buckets: tuple[float, ...] = ()

    @property
    def series(self) -> str:
        """The name of the metric's series, as rules and dashboards spell it."""
        return self.name if self.buckets else f"{self.name}_total"


class Gauge(msgspec.Struct, frozen=True):
    """The definition of a gauge: its name, its help text, and the names of its labels."""

    name: str
    help: str
    labels: Labels = ()

    def family(self, values: Mapping[Labels, float]) -> GaugeMetricFamily:
        """Return the metric family with these values."""
        family = GaugeMetricFamily(self.name, self.help, labels=self.labels)
        for labels, value in values.items():
            family.add_metric(labels, value)
        return family


class Counter(Collector):
    """A counter: sums by label values."""

    def __init__(self, definition: Definition) -> None:
        self._definition = definition
        self._sums: dict[Labels, float] = {}
        self._exemplars: dict[Labels, Exemplar] = {}

    def exist(self, every: Iterable[Labels]) -> None:
        """Create a series at zero for each of these label values, unless the series exists."""
        for labels in every:
            self._sums.setdefault(labels, 0.0)

    def __contains__(self, labels: Labels) -> bool:
        return labels in self._sums

    def add(self, labels: Labels, by: float = 1, *, name: str | None = None) -> None:
        """Add to the sum of a series; `name` becomes the exemplar of the series."""
        self._sums[labels] = self._sums.get(labels, 0.0) + by
        if name is not None:
            self._exemplars[labels] = _exemplar(name, by)

    @override
    def collect(self) -> Iterable[CounterMetricFamily]:
        definition = self._definition
        family = CounterMetricFamily(definition.name, definition.help, labels=definition.labels)
        for labels, sum_ in self._sums.items():
            family.add_metric(labels, sum_, exemplar=self._exemplars.get(labels))
        return [family]


class _Cell(msgspec.Struct):
    """The observations for one set of label values: the number of values up to each bound, the number of all values,
    and the sum of all values. `exemplars` maps the index of a bucket to the exemplar of the bucket."""

    below: list[int]
    count: int = 0
    sum: float = 0.0
    exemplars: dict[int, Exemplar] = {}


class Histogram(Collector):
    """A histogram: distributions by label values."""

    def __init__(self, definition: Definition) -> None:
        self._definition = definition
        self._cells: dict[Labels, _Cell] = {}

    def exist(self, every: Iterable[Labels]) -> None:
        """Create a series at zero for each of these label values, unless the series exists."""
        for labels in every:
            self._cell(labels)

    def __contains__(self, labels: Labels) -> bool:
        return labels in self._cells

    def observe(self, labels: Labels, values: Sequence[float]) -> None:
        """Count all `values`. The values are sorted first, so the cost is one search for each bucket, no matter how
        many values there are."""
        ordered = sorted(values)
        cell = self._cell(labels)
        for index, bound in enumerate(self._definition.buckets):
            cell.below[index] += bisect_right(ordered, bound)
        cell.count += len(ordered)
        cell.sum += sum(ordered)

    def observe_of(self, name: str | None, labels: Labels, value: float) -> None:
        """Count one value; `name` becomes the exemplar of its bucket."""
        cell, bucket = self._cell(labels), bisect_left(self._definition.buckets, value)
        for index in range(bucket, len(cell.below)):
            cell.below[index] += 1
        cell.count += 1
        cell.sum += value
        if name is not None:
            cell.exemplars[bucket] = _exemplar(name, value)

    def _cell(self, labels: Labels) -> _Cell:
        cell = self._cells.get(labels)
        if cell is None:
            cell = self._cells[labels] = _Cell([0] * len(self._definition.buckets))
        return cell

    @override
    def collect(self) -> Iterable[HistogramMetricFamily]:
        definition = self._definition
        family = HistogramMetricFamily(definition.name, definition.help, labels=definition.labels)
        for labels, cell in self._cells.items():
            bounds = [*(str(float(bound)) for bound in definition.buckets), "+Inf"]
            counts = zip(bounds, (*cell.below, cell.count), strict=True)
            buckets = [
                (bound, float(count), cell.exemplars[index]) if index in cell.exemplars else (bound, float(count))
                for index, (bound, count) in enumerate(counts)
            ]
            family.add_metric(labels, buckets, cell.sum)
        return [family]


def _exemplar(name: str, value: float) -> Exemplar:
    return Exemplar({"name": name[:_LONGEST_NAME]}, value)
