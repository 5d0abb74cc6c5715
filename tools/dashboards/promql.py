"""Builds expressions that are correct with any number of replicas.

Every replica exports the figures of the fleet. As in the alert rules, an expression computes the sums of each replica
that has counted lately, and takes the largest result. Counters of a process are summed over the processes.
`$job` selects one fleet; like `instance`, it is a label that Prometheus adds to scraped series. If a metric does not
have a label, the label is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from farrier.metrics.alerts import rules
from farrier.metrics.families import Definition, Gauge

_SCRAPED = ("job", "instance")
_LABEL = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")

# The shortest range for a rate, which Grafana computes from the scrape interval.
_SPAN = "$__rate_interval"


def fleet(gauge: Gauge, *by: str, where: str = "") -> str:
    """Return a figure of the fleet by these labels, or by all labels if none is given."""
    labels = by or gauge.labels
    _known(gauge.labels, labels)
    return rules.fleet(_selected(gauge.name, gauge.labels, where), *labels)


def total(gauge: Gauge, *by: str, where: str = "") -> str:
    """Return a figure of the fleet, summed over all labels except these."""
    _known(gauge.labels, by)
    return rules.total(_selected(gauge.name, gauge.labels, where), *by)


def each(gauge: Gauge, *by: str) -> str:
    """Return a figure of each process."""
    return f"max{_by(gauge.labels, by)}({_selected(gauge.name, gauge.labels, '')})"


def rate(counted: Definition, *by: str, where: str = "") -> str:
    """Return the rate per second, summed over all processes."""
    return f"sum{_by(counted.labels, by)}({_rate(counted, counted.series, where, _SPAN)})"


def last_hour(counted: Definition, *by: str, where: str = "") -> str:
    """Return the increase in the last hour, summed over all processes. The rate of a short range, converted to an hour,
    would show a large number for a single event."""
    return f"sum{_by(counted.labels, by)}(increase({_selected(counted.series, counted.labels, where)}[1h]))"


def rate_of_seen(counted: Definition, *by: str, where: str = "") -> str:
    """Return `rate` without series that did not increase in the shown range."""
    seen = f"sum{_by(counted.labels, by)}({_rate(counted, counted.series, where, '$__range')}) > 0"
    return f"{rate(counted, *by, where=where)} and ({seen})"


def quantile(share: float, histogram: Definition, *by: str, where: str = "", span: str = _SPAN) -> str:
    """Return the quantile, which is the value that `share` of the observations of all processes do not exceed."""
    buckets = _rate(histogram, f"{histogram.series}_bucket", where, span)
    return f"histogram_quantile({share}, sum{_by((*histogram.labels, 'le'), ('le', *by))}({buckets}))"


def count_rate(histogram: Definition, *by: str, where: str = "") -> str:
    """Return the observations per second, summed over all processes."""
    return f"sum{_by(histogram.labels, by)}({_rate(histogram, f'{histogram.series}_count', where, _SPAN)})"


def _rate(counted: Definition, series: str, where: str, span: str) -> str:
    return f"rate({_selected(series, counted.labels, where)}[{span}])"


def _selected(series: str, labels: Iterable[str], where: str) -> str:
    _known(labels, _LABEL.findall(where))
    return f'{series}{{job="$job"{", " if where else ""}{where}}}'


def _by(labels: Iterable[str], wanted: Iterable[str]) -> str:
    wanted = tuple(wanted)
    _known(labels, wanted)
    return f" by ({', '.join(wanted)}) " if wanted else " "


def _known(labels: Iterable[str], wanted: Iterable[str]) -> None:
    if unknown := set(wanted) - {*labels, *_SCRAPED}:
        raise ValueError(f"no label of this metric: {', '.join(sorted(unknown))}")
