"""Alerts about other programs: the services that farrier calls, and the monitors that report to it."""

from __future__ import annotations

from datetime import timedelta

from farrier.metrics import definitions, gauges
from farrier.metrics.alerts.rules import AlertRule, Severity, equals, fleet, increase, latest, none_of, rate, series
from farrier.model.maas.reading import MaasFailure
from farrier.model.machine.bmc import BmcFailure

ANSWERS = frozenset(
    {
        "ok",
        "cancelled",  # by farrier
        *(MaasFailure.ABSENT, MaasFailure.ADDRESS_TAKEN, MaasFailure.CAPACITY, MaasFailure.CONFLICT),
        *(MaasFailure.POWER, MaasFailure.FORBIDDEN, MaasFailure.INVALID),
        *(BmcFailure.INCOMPLETE, BmcFailure.UNSUPPORTED, BmcFailure.REFUSED),
        "missing",  # Vault does not have this secret
    }
)
"""Results that concern one machine or one request, and are not a failure of the service."""

_WINDOW = timedelta(minutes=10)
_SHARE = 0.25  # share of all requests; a few BMCs in a hundred are dead, and farrier retries these with growing delays
_AT_LEAST = 10  # failed requests in the window; a single dead BMC causes about as many


def alerts() -> tuple[AlertRule, ...]:
    """Return every alert about services."""
    return (_service_failing(), _tls_insecure())


def _service_failing() -> AlertRule:
    failed = series(definitions.SERVICE_REQUESTS, none_of("result", ANSWERS))
    asked = series(definitions.SERVICE_REQUESTS, 'result!="cancelled"')
    share = f"{rate(failed, _WINDOW, 'service')} / {rate(asked, _WINDOW, 'service')} > {_SHARE}"
    return AlertRule(
        name="FarrierServiceFailing",
        severity=Severity.TICKET,
        expr=f"{share} and {increase(failed, _WINDOW, 'service')} > {_AT_LEAST}",
        hold=timedelta(minutes=10),
        because="a restart of a service takes less time",
        summary="{{ $value | humanizePercentage }} of requests to {{ $labels.service }} fail",
        description="If many requests fail, there is usually a common cause: the network, a credential, or the service "
        "itself. Nodes wait, and farrier retries.",
    )


def _tls_insecure() -> AlertRule:
    return AlertRule(
        name="FarrierBmcTlsInsecure",
        severity=Severity.INFO,
        expr=f"max by (job) ({series(gauges.BMC_TLS_INSECURE)}) > 0",
        hold=timedelta(hours=1),
        because="a short experiment with this setting needs no alert",
        summary="farrier does not check the certificates of BMCs",
        description="bmc.insecure is set for all or some hosts. Any machine that takes over the address of such a "
        "BMC receives the BMC's password.",
    )


def of_monitors() -> tuple[AlertRule, ...]:
    """Return every alert about monitors."""
    return (_monitor_refused(), _monitor_silent())


def _monitor_refused() -> AlertRule:
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


def _monitor_silent() -> AlertRule:
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
