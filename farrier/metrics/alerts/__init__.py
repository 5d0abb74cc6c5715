"""Alert rules for Prometheus, as data: made from the settings, printed by `farrier alerts`.

Rules take the names of metrics from `definitions` and `gauges`, so a rule cannot use a metric that does not exist.
Figures of the fleet are equal on every replica: a rule takes the maximum of the replicas that have counted recently.
Counters of a process are summed over replicas. No rule compares with `farrier_state_sla_seconds`, which
lacks the limits of sites and models; the counts of resources above a limit use those limits.
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
