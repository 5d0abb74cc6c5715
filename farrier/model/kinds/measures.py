"""The metrics that a kind declares, and the samples of these metrics in outcomes.

A handler puts samples into its outcome; the loop publishes them after the commit. A kind declares every series, so all
its series exist from the start. Pure.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping
from itertools import pairwise, product
from typing import Literal, cast

import msgspec

from farrier.errors import HandlerGarbage

SERIES_AT_MOST = 1000
"""Largest number of series of a kind's own metrics in each process. The metrics of farrier itself have as many
series."""

_NAME = re.compile(r"[a-z][a-z0-9_]{0,59}")
# Suffixes that the Prometheus client appends to names, and labels that farrier, Prometheus or a histogram sets.
_ENDINGS = ("_total", "_count", "_sum", "_bucket", "_created", "_info")
_SET_BY_OTHERS = frozenset({"job", "instance", "le", "quantile"})


class Sample(msgspec.Struct, frozen=True):
    """One sample of a metric of a kind: an increment of a counter, or a value of a histogram. Raises HandlerGarbage if
    `metric` is not a text, if `labels` is not a mapping, or if `value` is not a finite number of at least 0."""

    metric: str
    labels: Mapping[str, str] = {}
    value: float = 1

    def __post_init__(self) -> None:
        metric, labels, value = cast("tuple[object, object, object]", (self.metric, self.labels, self.value))
        if not (isinstance(metric, str) and isinstance(labels, Mapping)):
            raise HandlerGarbage(
                f"a Sample whose metric is {metric!r} and whose labels are {labels!r}; expected a text and a mapping"
            )
        if not (isinstance(value, float | int) and math.isfinite(value) and value >= 0):
            raise HandlerGarbage(f"a Sample of {metric} whose value is {value!r}; expected a number of at least 0")


class KindMetric(msgspec.Struct, frozen=True, kw_only=True):
    """A metric of a kind, exposed as farrier_kind_KIND_NAME. `labels` lists all values of each label; `buckets` lists
    the upper bounds of a histogram."""

    name: str
    help: str
    type: Literal["counter", "histogram"]
    labels: Mapping[str, tuple[str, ...]] = {}
    buckets: tuple[float, ...] = ()

    @property
    def series(self) -> tuple[tuple[str, ...], ...]:
        """Every combination of the labels' values."""
        return tuple(product(*self.labels.values()))


def faults(metrics: Collection[KindMetric]) -> Iterator[str]:
    """Yield the faults in the metrics of one kind."""
    names = [metric.name for metric in metrics]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"metric {name} is declared twice"
    for metric in metrics:
        yield from (f"metric {metric.name!r}: {fault}" for fault in _faults_of(metric))
    count = sum(math.prod(map(len, metric.labels.values())) for metric in metrics)
    if count > SERIES_AT_MOST:
        yield f"its metrics have {count} series, but the limit is {SERIES_AT_MOST}; give the labels fewer values"


def _faults_of(metric: KindMetric) -> Iterator[str]:
    if not _NAME.fullmatch(metric.name) or metric.name.endswith(_ENDINGS):
        yield f"its name must match {_NAME.pattern} and must not end in {', '.join(_ENDINGS)}"
    if not metric.help.strip():
        yield "`help` is missing; expected a sentence that describes what is counted"
    match metric.type:
        case "counter":
            if metric.buckets:
                yield "a counter must not have buckets"
        case "histogram":
            if not metric.buckets or any(a >= b for a, b in pairwise(metric.buckets)):
                yield "a histogram needs `buckets`, upper bounds in ascending order"
            elif not all(map(math.isfinite, metric.buckets)):
                yield "the bounds of buckets must be finite; the last bucket (+Inf) is added automatically"
        case _:
            yield f"its type must be counter or histogram; this one is {metric.type!r}"
    for label, values in metric.labels.items():
        yield from _faults_of_label(label, values)


def _faults_of_label(label: str, values: object) -> Iterator[str]:
    if not _NAME.fullmatch(label) or label in _SET_BY_OTHERS:
        yield f"label {label!r} must match {_NAME.pattern} and must not be one of {', '.join(sorted(_SET_BY_OTHERS))}"
    texts = isinstance(values, tuple) and all(isinstance(value, str) and value for value in values)
    if not isinstance(values, tuple) or not values or not texts or len(set(values)) != len(values):
        yield f"label {label} needs a tuple of different, non-empty texts"
