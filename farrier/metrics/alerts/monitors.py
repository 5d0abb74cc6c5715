"""Alerts about monitors: their reports are refused, or their conditions are unknown."""

from __future__ import annotations

from datetime import timedelta

from farrier.metrics import gauges
from farrier.metrics.alerts.rules import AlertRule, Severity, equals, fleet, latest


def alerts() -> tuple[AlertRule, ...]:
    """Return every alert about monitors."""
    return _refused(), _silent()


def _refused() -> AlertRule:
    return AlertRule(
        name="FarrierMonitorRefused",
        severity=Severity.TICKET,
        expr=f"{fleet(latest(gauges.MONITOR_REFUSED), 'monitor')} > 0",
        hold=timedelta(minutes=15),
        because="a node may be registered minutes after the monitor has found it",
        summary="{{ $value }} condition(s) of monitor {{ $labels.monitor }} were not taken",
        description="These conditions decide nothing. To list them with the reasons, run farrier monitor refusals "
        "{{ $labels.monitor }}",
    )


def _silent() -> AlertRule:
    unknown = latest(gauges.MONITOR_CONDITIONS, equals("state", "unknown"))
    return AlertRule(
        name="FarrierMonitorSilent",
        severity=Severity.TICKET,
        expr=f"{fleet(unknown, 'monitor')} > 0",
        summary="{{ $value }} condition(s) of monitor {{ $labels.monitor }} are unknown",
        description="The monitor has not stated these conditions again before their expiry, so they take no further "
        "node out of service, and return none. To list the nodes: SELECT n.name, c.id FROM farrier.node_conditions c "
        "JOIN farrier.nodes n ON n.id = c.node WHERE c.source = 'monitor:{{ $labels.monitor }}' AND c.expires_at <= "
        "farrier.now()",
    )
