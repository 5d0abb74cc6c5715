"""Alertmanager's webhook, and which conditions of nodes its alerts are. Pure.

The payload is version 4 of `notify/webhook/webhook.go` and `template/template.go` in prometheus/alertmanager. A firing
alert has no `endsAt` there (`dispatch/dispatch.go` sets it to the year 1), so its condition lasts as long as the
monitor's grant says. Newer fields of the payload are ignored.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from farrier.model.monitors.monitor import Report, ReportAnswer
from farrier.model.node.conditions import Effect

_LONGEST = timedelta(days=30)  # the longest time that the database accepts for a condition
_NO_TIME = 1  # the year of Go's zero time


class Labels(msgspec.Struct, frozen=True, kw_only=True):
    """Which labels of an alert name what. `message` is an annotation. Without `serial`, no label has a serial
    number."""

    node: str = "node"
    serial: str = ""
    id: str = "condition"
    target: str = "target"
    effect: str = "effect"
    message: str = "summary"


class AlertmanagerAlert(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An alert of a group."""

    status: Literal["firing", "resolved"]
    labels: dict[str, str]
    annotations: dict[str, str] = {}
    ends_at: datetime | None = None
    fingerprint: str = ""


class Webhook(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A group of alerts. `truncated_alerts` is how many alerts of the group are missing."""

    version: Annotated[Literal["4"], Meta(description="Version of the payload.")]
    group_key: str = ""
    truncated_alerts: Annotated[int, Meta(ge=0)] = 0
    alerts: tuple[AlertmanagerAlert, ...]


class Untaken(msgspec.Struct, frozen=True, kw_only=True):
    """A report that was not taken, with the labels by which the alert named the condition."""

    node: str | None
    id: str | None
    target: str
    verdict: str
    reason: str | None


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """The conditions that a group of alerts states or ends, and the reports that were not taken."""

    taken: int
    refused: tuple[Untaken, ...]


def reports(alerts: Iterable[AlertmanagerAlert], labels: Labels, now: datetime) -> tuple[Report, ...]:
    """Return one report for each condition that the alerts name. If several alerts name the same condition, it stands
    while one of them fires, with the highest of their effects."""
    found: dict[tuple[str | None, str | None, str], Report] = {}
    for alert in alerts:
        report = _report(alert, labels, now)
        key = report.node, report.id, report.target
        if key not in found or _weight(report) > _weight(found[key]):
            found[key] = report
    return tuple(found.values())


def summary(reports: Iterable[Report], answers: Iterable[ReportAnswer]) -> Taken:
    """Return what became of the reports."""
    pairs = list(zip(reports, answers, strict=True))
    untaken = tuple(
        Untaken(node=each.node, id=each.id, target=each.target, verdict=answer.verdict, reason=answer.reason)
        for each, answer in pairs
        if answer.verdict != "taken"
    )
    return Taken(taken=len(pairs) - len(untaken), refused=untaken)


def _weight(report: Report) -> tuple[bool, bool]:
    return not report.ends, report.effect == Effect.QUARANTINE


def _report(alert: AlertmanagerAlert, labels: Labels, now: datetime) -> Report:
    given = alert.labels
    serial = given.get(labels.serial) if labels.serial and labels.node not in given else None
    return Report(
        node=given.get(labels.node) if serial is None else serial,
        by="name" if serial is None else "serial",
        id=given.get(labels.id),
        target=given.get(labels.target, ""),
        message=_message(alert, labels),
        effect=given.get(labels.effect) or Effect.NOTE,
        expires_at=_expiry(alert.ends_at, now),
        ends=alert.status == "resolved",
    )


def _expiry(ends_at: datetime | None, now: datetime) -> datetime | None:
    if ends_at is None or ends_at.year == _NO_TIME or ends_at <= now:
        return None
    return min(ends_at, now + _LONGEST)


def _message(alert: AlertmanagerAlert, labels: Labels) -> str:
    """Return the annotation on one line, or the name of the alert."""
    return " ".join(alert.annotations.get(labels.message, "").split()) or alert.labels.get("alertname", "")
