"""An alert rule, the file in which Prometheus reads rules, and the pieces of PromQL that all rules use.

Every expression has the same result with one replica as with many replicas, and ignores replicas whose figures are old.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from enum import StrEnum
from typing import Any

import msgspec

from farrier.metrics import gauges
from farrier.metrics.families import Definition, Gauge
from farrier.metrics.runbooks import Runbooks
from farrier.model import duration

_KEY = re.compile(r"[a-z_]+")

STALE_AFTER = timedelta(minutes=3)
"""The age from which an alert ignores a figure. A working Prometheus scrapes at least once a minute, so figures stay
usable even if two scrapes in a row fail."""

FLEET_HOLD = timedelta(minutes=5)
"""How long a condition on figures of the fleet must be true before its alert fires. This time is longer than
`STALE_AFTER`, so that outdated figures fire no alert, and longer than a fail-over of the database.
"""


class Severity(StrEnum):
    """The urgency of an alert."""

    PAGE = "page"  # now
    TICKET = "ticket"  # in working hours
    INFO = "info"  # no action


class AlertRule(msgspec.Struct, frozen=True, kw_only=True):
    """One rule. `hold` is how long `expr` must be true before the alert fires. `because` is the reason for the length
    of `hold`. The defaults of `hold` and `because` are for figures of the fleet. `runbook` is a page below
    docs/ with its anchor; if it is empty, the alert has a separate page. If several alerts have the same
    name, their `labels` differ, because Prometheus would otherwise merge them."""

    name: str
    severity: Severity
    expr: str
    hold: timedelta = FLEET_HOLD
    because: str = (
        f"figures of the fleet can be {duration.human(STALE_AFTER)} old, and one outdated figure should not fire the "
        "alert"
    )
    summary: str
    description: str
    runbook: str = ""
    labels: dict[str, str] = {}

    @property
    def page(self) -> str:
        """The path of the alert's runbook below docs/."""
        return self.runbook or f"operate/alerts/{self.name}.md"


class RuleGroup(msgspec.Struct, frozen=True):
    """Rules that Prometheus evaluates together."""

    name: str
    alerts: tuple[AlertRule, ...]


def exposition(groups: Iterable[RuleGroup], *, runbooks: Runbooks) -> dict[str, Any]:
    """Return the rules in Prometheus' format."""
    return {
        "groups": [
            {"name": group.name, "rules": [_rule(alert, runbooks) for alert in group.alerts]} for group in groups
        ]
    }


def _rule(alert: AlertRule, runbooks: Runbooks) -> dict[str, Any]:
    return {
        "alert": alert.name,
        "expr": alert.expr,
        "for": promql(alert.hold),
        "labels": {"severity": alert.severity.value, **alert.labels},
        "annotations": {
            "summary": alert.summary,
            "description": alert.description,
            "runbook_url": runbooks.link(alert.page),
        },
    }


def yaml(value: Mapping[str, Any]) -> str:
    """Return the mapping as a YAML document. Every text is quoted, so that no parser reads it as a number, a boolean or
    a comment. Raises ValueError for anything but mappings, sequences of mappings, and texts of one line."""
    return "".join(f"{line}\n" for line in _mapping(value))


def _mapping(value: Mapping[str, Any]) -> Iterator[str]:
    for key, held in value.items():
        if not _KEY.fullmatch(key):
            raise ValueError(f"a key consists of lower-case letters and underscores; got {key!r}")
        if isinstance(held, str):
            yield f"{key}: {_quoted(held)}"
        else:
            yield f"{key}:"
            yield from (f"  {line}" for line in _block(held))


def _block(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        yield from _mapping(value)
    elif isinstance(value, Sequence):
        for element in value:
            first, *rest = _mapping(element)
            yield f"- {first}"
            yield from (f"  {line}" for line in rest)
    else:
        raise ValueError(f"expected a text, a mapping or a sequence of mappings, got {value!r}")


def _quoted(text: str) -> str:
    if not text.isprintable():
        raise ValueError(f"expected one line of printable characters; got {text!r}")
    return "'" + text.replace("'", "''") + "'"


def promql(span: timedelta) -> str:
    """Return a duration of whole seconds in the spelling of PromQL."""
    return duration.human(span).replace(" ", "")


def equals(label: str, value: str) -> str:
    """Return a matcher for series whose label has this value."""
    return f'{label}="{value}"'


def one_of(label: str, values: Iterable[str]) -> str:
    """Return a matcher for series whose label has one of these values."""
    return f'{label}=~"{"|".join(sorted(values))}"'


def none_of(label: str, values: Iterable[str]) -> str:
    """Return a matcher for series whose label has none of these values."""
    return f'{label}!~"{"|".join(sorted(values))}"'


def series(metric: Gauge | Definition, *matchers: str, suffix: str = "") -> str:
    """Return a selector for those series of the metric that fit the matchers. `suffix` selects a part of a
    histogram."""
    name = metric.name if isinstance(metric, Gauge) else metric.series
    return f"{name}{suffix}{{{','.join(matchers)}}}" if matchers else f"{name}{suffix}"


def latest(metric: Gauge, *matchers: str) -> str:
    """Return the last figures of each replica, so that a failed scrape or a restart does not end an alert and raise it
    again."""
    return f"last_over_time({series(metric, *matchers)}[{promql(STALE_AFTER)}])"


def latest_named(metric: Gauge, *matchers: str) -> str:
    """Do the same as `latest`, for a metric whose series end when their condition ends. The last figures are used only
    for a replica that does not respond or has not counted yet."""
    answers = f"{gauges.COLLECTED.name} > 0"
    return f"({series(metric, *matchers)} or {latest(metric, *matchers)} unless on (job, instance) ({answers}))"


def fleet(selected: str, *by: str) -> str:
    """Return an expression for a figure of the fleet from `latest` series. It takes the largest value among the
    replicas that have counted the fleet recently."""
    # The maximum is used, because a process that has just started exports 0 until it has counted.
    return f"{_grouped('max', by)} ({_counted_recently(selected)})"


def total(selected: str, *by: str) -> str:
    """Do the same as `fleet`, for the sum over all labels except `by`. The expression sums the figures of each replica,
    and takes the largest sum. It does not sum the largest figures, because replicas count at different times: if a
    resource changes its state in between, this sum would count the resource twice."""
    return f"{_grouped('max', by)} ({_grouped('sum', (*by, 'job', 'instance'))} ({_counted_recently(selected)}))"


def _grouped(aggregation: str, by: tuple[str, ...]) -> str:
    return f"{aggregation} by ({', '.join(by)})" if by else aggregation


def _counted_recently(selected: str) -> str:
    counted = f"max_over_time({gauges.COLLECTED.name}[{promql(STALE_AFTER)}])"
    return f"{selected} and on (job, instance) (time() - {counted} < {STALE_AFTER.total_seconds():.0f})"


def rate(selected: str, window: timedelta, *by: str) -> str:
    """Return the sum of the rates of all replicas, per second."""
    return f"sum by ({', '.join(by)}) (rate({selected}[{promql(window)}]))"


def increase(selected: str, window: timedelta, *by: str) -> str:
    """Return the sum of the increases of all replicas in the last `window`."""
    return f"sum by ({', '.join(by)}) (increase({selected}[{promql(window)}]))"
