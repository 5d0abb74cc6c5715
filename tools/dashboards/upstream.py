"""The dashboard of the response times of BMCs, MAAS regions and Vault."""

from __future__ import annotations

from collections.abc import Mapping

from farrier.metrics import definitions, gauges
from farrier.metrics.alerts.upstream import ANSWERS
from farrier.model.maas.region import KIND as REGION
from farrier.model.maas.region import RegionState
from tools.dashboards.frame import Board, Panels, Part
from tools.dashboards.panels import FATAL, About, Query, Steps, bars, layers, lines, number, timeline
from tools.dashboards.promql import fleet, quantile, rate, rate_of_seen, total

_SERVICES: Mapping[str, str] = {"bmc": "BMCs", "maas": "MAAS", "vault": "Vault"}
_SHARE: Steps = {None: "green", 0.05: "orange", 0.25: "red"}  # shares of requests; the alert begins at the last share


def board() -> Board:
    """Return the dashboard for finding the service that fails."""
    return Board(
        name="upstream",
        title="Upstream services",
        answers="Requests to BMCs, MAAS regions and Vault: how many, how many fail, and how long they take.",
        parts=(
            Part("Now", _now()),
            *(Part(title, _service(service, title)) for service, title in _SERVICES.items()),
            Part("Missing observations", _unread()),
        ),
    )


def _now() -> Panels:
    return tuple(
        number(
            About(f"{title}: failed requests", "Share of the requests of the last minutes; 0 without requests.", 8, 4),
            _failing(service),
            "percentunit",
            _SHARE,
        )
        for service, title in _SERVICES.items()
    )


def _service(service: str, title: str) -> Panels:
    where = f'service="{service}"'
    return (
        layers(
            About("Requests by result", f"Requests to {title} per second.", 8),
            Query(rate_of_seen(definitions.SERVICE_REQUESTS, "result", where=where), "{{result}}"),
            "reqps",
        ),
        lines(
            About("Failures by operation", "Failed requests per second. An unexpected response counts as failed.", 8),
            [Query(rate_of_seen(definitions.SERVICE_REQUESTS, "operation", where=_failed(service)), "{{operation}}")],
            "reqps",
        ),
        lines(
            About("Response time", "Median of all requests, and the 95th percentile of each operation.", 8),
            [
                Query(quantile(0.5, definitions.SERVICE_DURATION, where=where), "median"),
                Query(quantile(0.95, definitions.SERVICE_DURATION, "operation", where=where), "{{operation}} 95 %"),
            ],
            "s",
        ),
    )


def _unread() -> Panels:
    return (
        bars(
            About("BMCs that cannot be read", "Manageable nodes whose BMC cannot be read, by failure.", 8),
            Query(f"{fleet(gauges.POWER_SYNC_FAILING)} > 0", "{{failure}}"),
            steps={None: "orange"},
        ),
        timeline(
            About("MAAS regions that cannot be read", "Number of MAAS regions that cannot be read.", 8),
            Query(total(gauges.RESOURCES, "kind", where=f'kind="{REGION}", state="{RegionState.FAILING}"'), "regions"),
            "short",
            FATAL,
            zero="all are read",
        ),
        lines(
            About(
                "Outdated observations",
                "Nodes whose last observation from the service is too old, or shows an unknown status.",
                8,
            ),
            [
                Query(fleet(gauges.OBSERVATIONS_STALE), "{{source}}"),
                Query(fleet(gauges.MAAS_STATUS_UNKNOWN), "in an unknown status"),
            ],
        ),
    )


def _failing(service: str) -> str:
    failed = rate(definitions.SERVICE_REQUESTS, where=_failed(service))
    asked = rate(definitions.SERVICE_REQUESTS, where=f'service="{service}", result!="cancelled"')
    return f"{failed} / ({asked} > 0) or vector(0)"


def _failed(service: str) -> str:
    return f'service="{service}", result!~"{"|".join(sorted(ANSWERS))}"'
