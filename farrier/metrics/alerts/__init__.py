"""Alert rules for Prometheus: takes the settings, and returns the rules as data.

The command `farrier alerts` prints the rules.

Rules take the names of metrics from `definitions` and `gauges`, so a rule cannot use a metric that does not exist.
Figures of the fleet are equal on every replica, so a rule uses the maximum of the replicas that have counted recently.
Counters of a process are summed over all replicas. No rule uses `farrier_state_sla_seconds`, because this metric does
not include the limits of sites and models. The counts of resources above a limit include these limits.
"""

from __future__ import annotations

from farrier.config import Config
from farrier.metrics.alerts import controller, fleet, upstream
from farrier.metrics.alerts.rules import AlertRule, RuleGroup, Severity, exposition, yaml

__all__ = ["AlertRule", "RuleGroup", "Severity", "exposition", "groups", "yaml"]


def groups(config: Config) -> tuple[RuleGroup, ...]:
    """Return every rule, with the limits and periods of these settings."""
    return (
        RuleGroup("farrier-fleet", fleet.alerts(config)),
        RuleGroup("farrier-controller", controller.alerts(config)),
        RuleGroup("farrier-upstream", upstream.alerts()),
        RuleGroup("farrier-monitors", upstream.of_monitors()),
    )
