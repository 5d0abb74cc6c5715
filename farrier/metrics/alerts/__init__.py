"""Alert rules for Prometheus, as data: made from the settings, printed by `farrier alerts`.

Whatever a rule asks for is named by `definitions` and `gauges`, so a rule cannot ask for a metric that is not there.
Figures of the fleet are the same on every replica: a rule takes the largest, of those replicas that have counted
lately. What a process counts is summed over replicas. No rule compares with `farrier_state_sla_seconds`: nodes are held
to limits of their own, and the counts above them already know.
"""

from __future__ import annotations

from farrier.config import Config
from farrier.metrics.alerts import controller, fleet, upstream
from farrier.metrics.alerts.rules import Alert, Group, Severity, exposition
from farrier.metrics.alerts.text import yaml

__all__ = ["Alert", "Group", "Severity", "exposition", "groups", "yaml"]


def groups(config: Config) -> tuple[Group, ...]:
    """Every rule, with the limits and periods of these settings."""
    return (
        Group("farrier-fleet", fleet.alerts(config)),
        Group("farrier-controller", controller.alerts(config)),
        Group("farrier-upstream", upstream.alerts()),
    )
