"""How BMCs, MAAS regions and Vault answer."""

from __future__ import annotations

from collections.abc import Mapping

from farrier.metrics import definitions, gauges
from farrier.metrics.alerts.upstream import ANSWERS
from farrier.model.maas_region import KIND as REGION
from farrier.model.maas_region import RegionState
from tools.dashboards.frame import Board, Panels, Part
from tools.dashboards.panels import FATAL, About, Query, Steps, bars, layers, lines, number, timeline
from tools.dashboards.promql import fleet, quantile, rate, rate_of_seen, total

_SERVICES: Mapping[str, str] = {"bmc": "BMCs", "maas": "MAAS", "vault": "Vault"}
_SHARE: Steps = {None: "green", 0.05: "orange", 0.25: "red"}  # of requests; the alert begins at the last


def board() -> Board:
    """For whoever asks whose fault it is."""
    return Board(
        name="upstream",
        title="Upstream services",
        answers="How BMCs, MAAS regions and Vault answer: how much is asked, how often it fails, how long it takes.",
        parts=(
            Part("Now", _now()),
            *(Part(title, _service(service, title)) for service, title in _SERVICES.items()),
            Part("What nobody could read", _unread()),
        ),
    )


def _now() -> Panels:
    return tuple(
        number(
            About(f"{title}: share that fails", "Of requests in the last minutes; none asked is none failed.", 8, 4),
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
            About("Requests by result", f"Requests to {title} a second.", 8),
            Query(rate_of_seen(definitions.SERVICE_REQUESTS, "result", where=where), "{{result}}"),
            "reqps",
        ),
        lines(
            About("Failures by operation", "What failed, a second; an answer that was not liked is none.", 8),
            [Query(rate_of_seen(definitions.SERVICE_REQUESTS, "operation", where=_failed(service)), "{{operation}}")],
            "reqps",
        ),
        lines(
            About("Time to answer", "What half of all requests took at most, and 95 of 100 of each operation.", 8),
            [
                Query(quantile(0.5, definitions.SERVICE_DURATION, where=where), "half of all"),
                Query(quantile(0.95, definitions.SERVICE_DURATION, "operation", where=where), "{{operation}} 95 %"),
            ],
            "s",
        ),
    )


def _unread() -> Panels:
    return (
        bars(
            About("BMCs that cannot be read", "Manageable nodes by what went wrong.", 8),
            Query(f"{fleet(gauges.POWER_SYNC_FAILING)} > 0", "{{failure}}"),
            steps={None: "orange"},
        ),
        timeline(
            About("MAAS regions that cannot be read", "How many regions are failing.", 8),
            Query(total(gauges.RESOURCES, "kind", where=f'kind="{REGION}", state="{RegionState.FAILING}"'), "regions"),
            "short",
            FATAL,
            zero="all are read",
        ),
        lines(
            About("Observations that are too old", "Nodes of which the service has said nothing for too long.", 8),
            [Query(fleet(gauges.OBSERVATIONS_STALE), "{{source}}")],
        ),
    )


def _failing(service: str) -> str:
    failed = rate(definitions.SERVICE_REQUESTS, where=_failed(service))
    asked = rate(definitions.SERVICE_REQUESTS, where=f'service="{service}", result!="cancelled"')
    return f"{failed} / ({asked} > 0) or 0 * {asked}"


def _failed(service: str) -> str:
    return f'service="{service}", result!~"{"|".join(sorted(ANSWERS))}"'
