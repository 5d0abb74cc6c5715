"""Alerts about nodes and regions: stuck, waiting for a person, coming and going.

All but one go by figures of the fleet, which every replica takes from the database.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from farrier.config import Config
from farrier.metrics import definitions, gauges
from farrier.metrics.alerts.rules import (
    FLEET_HOLD,
    FLEET_HOLD_BECAUSE,
    Alert,
    Severity,
    equals,
    fleet,
    increase,
    series,
)
from farrier.model import duration, maas_region
from farrier.model.bmc import BmcFailure
from farrier.model.edges import LAYER_KIND, Layer
from farrier.model.failures import BMC_ADVICE, FAILURES, UNSAFE, FailureClass
from farrier.model.limits import END_TO_END, Limits, rules
from farrier.model.maas_region import RegionState
from farrier.model.status import NodeStatus

_PLACE = ("kind", "state", "substate")
_WHERE = "{{ $labels.kind }} {{ $labels.state }}{{ with $labels.substate }} {{ . }}{{ end }}"

PATIENT_FROM = timedelta(hours=24)
"""A limit of a day or more is a person's, so nobody is woken for it; a shorter one is the machinery's."""

# An intent waits while its node is verifying or adopting, for ten minutes at most; then it has an answer.
_ANSWERED_WITHIN = timedelta(minutes=15)

# A bound of the histogram. Nodes that are in service for less are not in service.
SHORT_STAY = timedelta(minutes=15)
# A node may be taken out of service by somebody right after it came in; not five of them in an hour.
_SHORT_STAYS = 5
_BELONGS = {LAYER_KIND[Layer.STATUS]: NodeStatus.ACTIVE.value, maas_region.KIND: RegionState.OBSERVING.value}

# The first five say where to look; the rest is in `farrier sla breaches`.
_WORST = (
    "{{ range printf `topk(5, max by (node) ("
    f"{gauges.NODE_ABOVE_SLA.name}"
    "{kind=%q,state=%q,substate=%q}))` $labels.kind $labels.state $labels.substate | query }}"
    " {{ .Labels.node }}{{ end }}"
)


def alerts(config: Config) -> tuple[Alert, ...]:
    """Every alert about the fleet, with the limits of these settings."""
    return (
        *_stuck(config),
        *((_node_stuck(),) if config.metrics.name_nodes else ()),
        _end_to_end(config),
        *(_manual_intervention(failure) for failure in FailureClass),
        _region_failing(),
        *(_bmc_unreadable(failure) for failure in BmcFailure),
        _intents_unanswered(),
        _flapping(),
    )


def _stuck(config: Config) -> Iterator[Alert]:
    """Two rules, for limits of people and for all the others: a state that gets its first limit after the rules were
    written is one of those at once."""
    patient = " or ".join(series(gauges.ABOVE_SLA, *place) for place in _patient(config.sla))
    others = series(gauges.ABOVE_SLA, f'kind!="{maas_region.KIND}"', f'state!="{END_TO_END}"')
    named = config.metrics.name_nodes
    yield _stuck_at(Severity.PAGE, f"({others} unless ({patient}))" if patient else others, named=named)
    if patient:
        yield _stuck_at(Severity.TICKET, f"({patient})", named=named)


def _stuck_at(severity: Severity, selected: str, *, named: bool) -> Alert:
    return Alert(
        name="FarrierStuck",
        severity=severity,
        expr=fleet(selected, *_PLACE) + " > 0",
        hold=FLEET_HOLD,
        because=FLEET_HOLD_BECAUSE,
        summary=f"{{{{ $value }}}} above the limit of {_WHERE}",
        description="Each is above the limit that holds for itself. Run: farrier sla breaches."
        + (f" The worst:{_WORST}" if named else ""),
    )


def _patient(limits: Limits) -> Iterator[tuple[str, ...]]:
    """What selects the states and stages whose limits, of whatever site and model, are all a person's."""
    shortest: dict[tuple[str, str, str], timedelta] = {}
    for rule in rules(limits):
        place = (rule.place.kind, rule.place.state, rule.place.substate)
        shortest[place] = min(rule.lasts, shortest.get(place, rule.lasts))
    for (kind, state, substate), limit in shortest.items():
        if limit >= PATIENT_FROM and kind != maas_region.KIND and state != END_TO_END:
            yield equals("kind", kind), equals("state", state), equals("substate", substate)


def _node_stuck() -> Alert:
    return Alert(
        name="FarrierNodeStuck",
        severity=Severity.TICKET,
        expr=fleet(series(gauges.NODE_ABOVE_SLA), "node", *_PLACE) + " > 0",
        hold=FLEET_HOLD,
        because=FLEET_HOLD_BECAUSE,
        summary=f"{{{{ $labels.node }}}} is stuck in {_WHERE}",
        description="{{ $labels.node }} is {{ $value | humanizeDuration }} above its limit. "
        "Run: farrier node why {{ $labels.node }}",
    )


def _end_to_end(config: Config) -> Alert:
    limits = ", ".join(
        f"{rule.place.kind} {duration.human(rule.lasts)}"
        for rule in rules(config.sla)
        if rule.place.state == END_TO_END and not rule.scope
    )
    return Alert(
        name="FarrierEndToEndBreach",
        severity=Severity.TICKET,
        expr=fleet(series(gauges.ABOVE_SLA, equals("state", END_TO_END)), "kind") + " > 0",
        hold=FLEET_HOLD,
        because=FLEET_HOLD_BECAUSE,
        summary="{{ $value }} {{ $labels.kind }} workflow(s) take longer than they may in all",
        description="Whatever stage they are in, and however often they moved. Limits where neither site nor model has "
        f"its own: {limits}. Run: farrier sla breaches",
    )


def _manual_intervention(failure: FailureClass) -> Alert:
    unsafe = failure in UNSAFE
    return Alert(
        name="FarrierManualInterventionRequired",
        severity=Severity.PAGE if unsafe else Severity.TICKET,
        expr=fleet(series(gauges.MANUAL_INTERVENTION, equals("failure_class", failure)), "failure_class") + " > 0",
        hold=FLEET_HOLD,
        because=FLEET_HOLD_BECAUSE,
        summary=f"{{{{ $value }}}} node(s) wait for an operator: {failure}",
        description=f"To do: {FAILURES[failure].action}."
        + (" It may be the wrong machine that is being worked on." if unsafe else "")
        + f" Which: SELECT name, failure_detail FROM farrier.node_lifecycle WHERE failure_class = '{failure}'",
        runbook=f"failures.md#failure-{failure}",
        labels={"failure_class": str(failure)},
    )


def _region_failing() -> Alert:
    return Alert(
        name="FarrierRegionFailing",
        severity=Severity.PAGE,
        expr=fleet(series(gauges.ABOVE_SLA, equals("kind", maas_region.KIND)), "state") + " > 0",
        hold=FLEET_HOLD,
        because=FLEET_HOLD_BECAUSE,
        summary="{{ $value }} MAAS region(s) cannot be read ({{ $labels.state }})",
        description="What is known of their machines grows old, and is not acted on. Run: farrier site list",
    )


def _bmc_unreadable(failure: BmcFailure) -> Alert:
    return Alert(
        name="FarrierBmcUnreadable",
        severity=Severity.TICKET,
        expr=fleet(series(gauges.POWER_SYNC_FAILING, equals("failure", failure)), "failure") + " > 0",
        hold=timedelta(minutes=30),
        because="a BMC that is reset or updated is away for ten to twenty minutes",
        summary=f"{{{{ $value }}}} BMC(s) cannot be read: {failure}",
        description=f"To do: {BMC_ADVICE[failure]}. Which: SELECT name, bmc_address FROM farrier.node_lifecycle "
        f"WHERE power_failure = '{failure}'",
        runbook=f"failures.md#bmc-{failure}",
        labels={"failure": str(failure)},
    )


def _intents_unanswered() -> Alert:
    oldest = fleet(series(gauges.INTENTS_OLDEST_PENDING))
    return Alert(
        name="FarrierIntentsUnanswered",
        severity=Severity.TICKET,
        expr=f"{oldest} > {_ANSWERED_WITHIN.total_seconds():.0f}",
        hold=FLEET_HOLD,
        because=FLEET_HOLD_BECAUSE,
        summary="An intent has had no answer for {{ $value | humanizeDuration }}",
        description=f"None should wait for more than {duration.human(_ANSWERED_WITHIN)}, but those of paused nodes, "
        "which are not counted.",
    )


def _flapping() -> Alert:
    short = equals("le", str(SHORT_STAY.total_seconds()))
    stays = " or ".join(
        increase(
            series(definitions.TIME_IN_STATE, equals("kind", kind), equals("state", state), short, suffix="_bucket"),
            timedelta(hours=1),
            "kind",
            "state",
        )
        for kind, state in _BELONGS.items()
    )
    return Alert(
        name="FarrierFlapping",
        severity=Severity.TICKET,
        expr=f"({stays}) > {_SHORT_STAYS}",
        hold=timedelta(minutes=5),
        because="the window of an hour is the patience; this only rides out a replica that is missing",
        summary="{{ $labels.kind }}s do not stay {{ $labels.state }}",
        description="In the last hour {{ $labels.state }} was left {{ $value | humanize }} times within "
        f"{duration.human(SHORT_STAY)} of being entered. "
        "Run: farrier history list --last 1h --from {{ $labels.state }}",
    )
