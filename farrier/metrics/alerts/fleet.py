"""Alerts about nodes, regions and resources of other kinds that are stuck, wait for an operator, fail or flap.

All rules but one use figures of the fleet, which every replica counts in the database.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta

from farrier.config import Config, kinds
from farrier.metrics import definitions, gauges
from farrier.metrics.alerts.rules import (
    AlertRule,
    Severity,
    equals,
    fleet,
    increase,
    latest,
    latest_named,
    none_of,
    one_of,
    series,
    total,
)
from farrier.model import duration
from farrier.model.advice.recommended import text
from farrier.model.kinds.built_in import BUILT_IN
from farrier.model.kinds.spec import KindSpec
from farrier.model.maas import region
from farrier.model.maas.region import RegionState
from farrier.model.machine.bmc import BmcFailure
from farrier.model.node.conditions import BMC_HEALTH
from farrier.model.node.conditions import Source as ConditionSource
from farrier.model.node.failures import BMC_ADVICE, FAILURES, UNSAFE, FailureClass
from farrier.model.node.layers import LAYER_KIND, NODE
from farrier.model.node.limits import END_TO_END, PLACES, ClockedState, Limits, places_of, rules
from farrier.model.views.census import ObservationSource

_PLACE = ("kind", "state", "substate")
_WHERE = "{{ $labels.kind }} {{ $labels.state }}{{ with $labels.substate }} {{ . }}{{ end }}"

PATIENT_FROM = timedelta(hours=24)
"""If the limit of a state is at least this long, people do the work in this state, so the paging alert for many stuck
resources does not count the state. In a state with a shorter limit, the work needs no people."""

# An intent waits while its node is verifying or adopting, for ten minutes at most; then it has an answer.
_ANSWERED_WITHIN = timedelta(minutes=15)

SHORT_STAYS = 5
"""How many resources may, within an hour, leave their normal state without an intent soon after entering it."""

# farrier reads a BMC every minute. An unreadable BMC has had no good read for `node.observation_ttl`, five minutes.
_BMC_AWAY = timedelta(minutes=30)
_BMC_AWAY_BECAUSE = "a BMC is unreachable for ten to twenty minutes during a reset or an update"
# A page for many resources needs both this share and this number.
_MANY = 0.05  # of all; one or two in a hundred fail without a common cause
_MANY_AT_LEAST = 5  # a share of a small fleet is a single machine

# A template for the names of the resources in the state of the alert. Five names are enough to begin; `farrier sla
# breaches` lists the others. The metric names at most a hundred resources, so it may name none in this state.
_FURTHEST = (
    "{{ with printf `topk(5, max by (name) ("
    f"{gauges.RESOURCE_ABOVE_SLA.name}"
    "{kind=%q,state=%q,substate=%q}))` $labels.kind $labels.state $labels.substate | query }}"
    " Furthest above the limit:{{ range . }} {{ .Labels.name }}{{ end }}{{ end }}"
)


def alerts(config: Config) -> tuple[AlertRule, ...]:
    """Return every alert about the fleet, with the limits of these settings."""
    named = config.metrics.name_resources
    return (
        _stuck(named=named),
        _many_stuck(config),
        *((_resource_stuck(),) if named else ()),
        _end_to_end(config, named=named),
        *(_manual_intervention(failure) for failure in FailureClass),
        _manual_intervention_unknown(),
        _region_failing(named=named),
        _region_unconfigured(),
        *_observations_stale(),
        _maas_status_unknown(),
        _hardware_critical(),
        _resources_failing(),
        *(_bmc_unreadable(failure) for failure in BmcFailure),
        _bmc_unreadable_unknown(),
        _many_bmcs_unreadable(),
        _same_machine(),
        _brake(),
        _restored(),
        _intents_unanswered(),
        _flapping(),
    )


def _stuck(*, named: bool) -> AlertRule:
    selected = latest(gauges.ABOVE_SLA, f'kind!="{region.KIND}"', f'state!="{END_TO_END}"')
    return AlertRule(
        name="FarrierStuck",
        severity=Severity.TICKET,
        expr=fleet(selected, *_PLACE) + " > 0",
        summary=f"{{{{ $value }}}} resource(s) above the limit of {_WHERE}",
        description="To list them, run farrier sla breaches." + (_FURTHEST if named else ""),
    )


def _many_stuck(config: Config) -> AlertRule:
    """Return the paging alert for many stuck resources of one kind. It does not count resources in states whose limits
    depend on operators. It counts resources in a state that gets its first limit after the rules were generated."""
    of_kinds = places_of(_kinds(config))
    patient = " or ".join(latest(gauges.ABOVE_SLA, *place) for place in _patient(config.sla, (*PLACES, *of_kinds)))

    def late(*matchers: str) -> str:
        selected = latest(gauges.ABOVE_SLA, *matchers)
        return total(f"({selected} unless ({patient}))" if patient else selected, "kind")

    layers = sorted({*LAYER_KIND.values()})
    of_nodes = late(one_of("kind", layers), f'state!="{END_TO_END}"')
    # The share of a layer is a share of all nodes: few workflows run, and often most of them are the stuck ones.
    nodes = total(latest(gauges.RESOURCES, equals("kind", NODE)))
    of_others = late(none_of("kind", [*layers, region.KIND]))
    others = total(latest(gauges.RESOURCES, none_of("kind", layers)), "kind")
    return AlertRule(
        name="FarrierManyStuck",
        severity=Severity.PAGE,
        expr=f"{of_nodes} >= {_MANY_AT_LEAST} >= on () group_left () {_MANY} * {nodes}"
        f" or {of_others} >= {_MANY_AT_LEAST} >= on (kind) {_MANY} * {others}",
        summary="{{ $value }} resources of {{ $labels.kind }} are above their limits",
        description="If many resources are stuck, there is usually a common cause, such as a service or a network. To "
        "list the resources, run farrier sla breaches.",
    )


def _kinds(config: Config) -> tuple[KindSpec, ...]:
    """Return all kinds except nodes: the built-in kinds, and the kinds that the settings name."""
    return (*BUILT_IN, *kinds.specs(config.controller.kinds))


def _patient(limits: Limits, places: Iterable[ClockedState]) -> Iterator[tuple[str, ...]]:
    """Yield selectors of the states and stages whose limits depend on an operator, for every site and model."""
    shortest: dict[tuple[str, str, str], timedelta] = {}
    for rule in rules(limits, places):
        place = (rule.kind, rule.state, rule.substate)
        shortest[place] = min(rule.lasts, shortest.get(place, rule.lasts))
    for (kind, state, substate), limit in shortest.items():
        if limit >= PATIENT_FROM and kind != region.KIND and state != END_TO_END:
            yield equals("kind", kind), equals("state", state), equals("substate", substate)


def _resource_stuck() -> AlertRule:
    """Return an alert for each resource that the census names, except MAAS regions, because the paging alert of
    `_region_failing` names them."""
    late = latest_named(gauges.RESOURCE_ABOVE_SLA, f'kind!="{region.KIND}"')
    return AlertRule(
        name="FarrierResourceStuck",
        severity=Severity.TICKET,
        expr=fleet(late, "name", "resource_kind", *_PLACE) + " > 0",
        summary=f"{{{{ $labels.name }}}} is stuck in {_WHERE}",
        description="{{ $labels.name }} is {{ $value | humanizeDuration }} above its limit. "
        "Run: farrier resource why {{ $labels.resource_kind }} {{ $labels.name }}",
    )


def _end_to_end(config: Config, *, named: bool) -> AlertRule:
    limits = ", ".join(
        f"{rule.kind} {duration.human(rule.lasts)}"
        for rule in rules(config.sla)
        if rule.state == END_TO_END and not rule.scope
    )
    return AlertRule(
        name="FarrierEndToEndBreach",
        severity=Severity.TICKET,
        expr=fleet(latest(gauges.ABOVE_SLA, equals("state", END_TO_END)), *_PLACE) + " > 0",
        summary="{{ $value }} {{ $labels.kind }} workflow(s) take longer than the limit for the whole workflow",
        description="To list the {{ $value }} node(s), run farrier sla breaches, and look for the clock "
        f"{{{{ $labels.kind }}}} {END_TO_END}. A change of the stage does not reset this clock. General limits, which "
        f"limits of sites and models override: {limits}." + (_FURTHEST if named else ""),
    )


def _manual_intervention(failure: FailureClass) -> AlertRule:
    unsafe = failure in UNSAFE
    return AlertRule(
        name="FarrierManualInterventionRequired",
        severity=Severity.PAGE if unsafe else Severity.TICKET,
        expr=fleet(latest(gauges.MANUAL_INTERVENTION, equals("failure_class", failure)), "failure_class") + " > 0",
        summary=f"{{{{ $value }}}} node(s) wait for an operator: {failure}",
        description=f"To do: {FAILURES[failure].action}."
        + (" farrier may be working on the wrong machine." if unsafe else "")
        + f" To list them: SELECT name, failure_detail FROM farrier.node_lifecycle WHERE failure_class = '{failure}'",
        runbook=f"reference/failures.md#failure-{failure}",
        labels={"failure_class": str(failure)},
    )


def _manual_intervention_unknown() -> AlertRule:
    """Return an alert for failures that only a newer release defines. It fires if replicas were upgraded, but the rules
    were not generated again."""
    unknown = latest(gauges.MANUAL_INTERVENTION, none_of("failure_class", FailureClass))
    return AlertRule(
        name="FarrierManualInterventionRequired",
        severity=Severity.PAGE,  # the class may be unsafe
        expr=fleet(unknown, "failure_class") + " > 0",
        summary="{{ $value }} node(s) wait for an operator: {{ $labels.failure_class }}",
        description="The alert rules are older than the replicas and do not contain this failure class. Run farrier "
        "node why for each node, and generate the rules again with farrier alerts.",
    )


def _region_failing(*, named: bool) -> AlertRule:
    return AlertRule(
        name="FarrierRegionFailing",
        severity=Severity.PAGE,
        expr=fleet(latest(gauges.ABOVE_SLA, equals("kind", region.KIND)), *_PLACE) + " > 0",
        summary="{{ $value }} MAAS region(s) cannot be read ({{ $labels.state }})",
        description="farrier does not act on outdated observations of the machines of these regions. To see the "
        "error, run farrier site list." + (_FURTHEST if named else ""),
    )


def _region_unconfigured() -> AlertRule:
    state = equals("state", RegionState.UNCONFIGURED)
    return AlertRule(
        name="FarrierRegionUnconfigured",
        severity=Severity.TICKET,
        expr=fleet(latest(gauges.RESOURCES, equals("kind", region.KIND), state)) + " > 0",
        summary="{{ $value }} known MAAS region(s) are in the settings of no controller",
        description="No controller reads these regions, and work that needs MAAS has stopped at their sites. farrier "
        "site list names the sites. Restore the file of a site, or run farrier resource intent "
        "maas_region SITE delete --wait",
    )


def _observations_stale() -> tuple[AlertRule, AlertRule]:
    """Return the alerts for outdated observations: a ticket for single machines, and a page for many machines. If many
    observations are outdated, usually no controller reads their region. The machines of failing regions do not count,
    because the alert of `_region_failing` reports these regions."""
    stale = fleet(latest(gauges.OBSERVATIONS_STALE, equals("source", ObservationSource.MAAS)))
    nodes = total(latest(gauges.RESOURCES, equals("kind", NODE)))
    return (
        _observations_stale_at(Severity.PAGE, f"{stale} >= {_MANY_AT_LEAST} and {stale} / {nodes} >= {_MANY}"),
        _observations_stale_at(Severity.TICKET, f"{stale} > 0"),
    )


def _observations_stale_at(severity: Severity, expr: str) -> AlertRule:
    return AlertRule(
        name="FarrierObservationsStale",
        severity=severity,
        expr=expr,
        hold=timedelta(minutes=15),
        because="farrier usually reads a machine again within minutes",
        summary="farrier has no fresh observation of {{ $value }} machine(s) in MAAS",
        description="farrier does not act on the old observations of these machines. Either no controller reads the "
        "region, or the region does not return these machines. To find the reason, run farrier site list",
    )


def _maas_status_unknown() -> AlertRule:
    return AlertRule(
        name="FarrierMaasStatusUnknown",
        severity=Severity.TICKET,
        expr=f"{fleet(latest(gauges.MAAS_STATUS_UNKNOWN))} > 0",
        hold=timedelta(minutes=5),
        because="one reading of a machine may be damaged",
        summary="{{ $value }} machine(s) in MAAS are in a status that farrier does not know",
        description="farrier takes no node out of service because of such a status, and workflows of these machines "
        "wait. The region may be newer than farrier: update farrier. To list the nodes: SELECT n.name, "
        "o.detail ->> 'status_name' FROM farrier.node_observations o JOIN farrier.nodes n ON n.id = o.node_id "
        "WHERE o.state = 'unknown'",
    )


def _hardware_critical() -> AlertRule:
    critical = equals("condition", f"{ConditionSource.BMC}/{BMC_HEALTH}")
    return AlertRule(
        name="FarrierHardwareCritical",
        severity=Severity.TICKET,
        expr=f"{fleet(latest(gauges.NODE_CONDITIONS, critical))} > 0",
        hold=timedelta(minutes=5),
        because="a BMC may report a part as critical while it starts",
        summary="The BMC of {{ $value }} node(s) reports the health Critical",
        description="farrier takes no node out of service because of this health. To list the nodes: SELECT n.name, "
        "c.since FROM farrier.node_conditions c JOIN farrier.nodes n ON n.id = c.node WHERE c.source = 'bmc' AND "
        "c.id = 'health'",
    )


def _resources_failing() -> AlertRule:
    failing = fleet(latest_named(gauges.RESOURCES_FAILING), "kind", "error")
    return AlertRule(
        name="FarrierResourcesFailing",
        severity=Severity.TICKET,
        expr=f"{failing} > 0",
        hold=timedelta(minutes=15),
        because="a restart of a service takes less time; each resource has failed for five minutes before the alert "
        "counts it",
        summary="Every run of {{ $value }} {{ $labels.kind }}(s) ends in the same error: {{ $labels.error }}",
        description="These resources make no progress. To list them: SELECT n.name, o.at, o.outcome FROM "
        "farrier.outcomes o, farrier.resource_names(o.kind, ARRAY[o.id]) n WHERE o.kind = '{{ $labels.kind }}' AND "
        "o.outcome ->> 'error' = '{{ $labels.error }}'",
    )


def _bmc_unreadable(failure: BmcFailure) -> AlertRule:
    return AlertRule(
        name="FarrierBmcUnreadable",
        severity=Severity.TICKET,
        expr=_unread(equals("failure", failure)),
        hold=_BMC_AWAY,
        because=_BMC_AWAY_BECAUSE,
        summary=f"{{{{ $value }}}} BMC(s) cannot be read: {failure}",
        description=f"To do: {text(BMC_ADVICE[failure])}. To list them: SELECT name, bmc_address FROM "
        f"farrier.node_lifecycle WHERE coalesce(power_failure, bmc_failure) = '{failure}'",
        runbook=f"reference/failures.md#bmc-{failure}",
        labels={"failure": str(failure)},
    )


def _bmc_unreadable_unknown() -> AlertRule:
    """Return an alert for failures that only a newer release defines. It fires if replicas were upgraded, but the rules
    were not generated again."""
    return AlertRule(
        name="FarrierBmcUnreadable",
        severity=Severity.TICKET,
        expr=_unread(none_of("failure", BmcFailure)),
        hold=_BMC_AWAY,
        because=_BMC_AWAY_BECAUSE,
        summary="{{ $value }} BMC(s) cannot be read: {{ $labels.failure }}",
        description="The alert rules are older than the replicas and do not contain this failure. Generate the rules "
        "again with farrier alerts.",
    )


def _unread(which: str) -> str:
    """Return a selector of failed reads that matches only while some BMC has had no good read for `observation_ttl`, so
    that single failed reads do not count."""
    stale = fleet(latest(gauges.OBSERVATIONS_STALE, equals("source", ObservationSource.BMC)))
    return f"{fleet(latest(gauges.POWER_SYNC_FAILING, which), 'failure')} > 0 and on () {stale} > 0"


def _many_bmcs_unreadable() -> AlertRule:
    stale = fleet(latest(gauges.OBSERVATIONS_STALE, equals("source", ObservationSource.BMC)))
    manageable = latest(gauges.RESOURCES, equals("kind", "management"), equals("state", "manageable"))
    return AlertRule(
        name="FarrierManyBmcsUnreadable",
        severity=Severity.PAGE,
        # A BMC that cannot be verified again is no longer manageable: all of a fleet may be stale, and none manageable.
        expr=f"{stale} >= {_MANY} * {fleet(manageable)} and {stale} >= {_MANY_AT_LEAST}",
        hold=timedelta(minutes=10),
        because="a restart of a switch takes less time",
        summary="{{ $value }} BMCs, at least one in twenty, cannot be read",
        description="If many BMCs cannot be read, there is usually a common cause: the management network or a "
        "credential. farrier does not act on old power states.",
    )


def _same_machine() -> AlertRule:
    return AlertRule(
        name="FarrierSameMachine",
        severity=Severity.TICKET,
        expr=f"{fleet(latest(gauges.NODES_SAME_MACHINE))} > 0",
        summary="{{ $value }} nodes have recorded the same machine as another node",
        description="An action on one of these nodes also affects the other node, so farrier switches the power of "
        "neither. To list them, run farrier db check.",
    )


def _brake() -> AlertRule:
    return AlertRule(
        name="FarrierBrakeHolds",
        severity=Severity.PAGE,
        expr=f"{fleet(latest(gauges.BRAKES_HOLDING))} > 0",
        summary="The brake holds failing nodes in service at {{ $value }} site(s)",
        description="More nodes fail than may leave service at once. The failing nodes stay active until the "
        "failures end or an operator lifts the brake. To list the sites and nodes: farrier site brakes",
    )


def _restored() -> AlertRule:
    return AlertRule(
        name="FarrierRestored",
        severity=Severity.TICKET,
        expr=f"{total(latest(gauges.RESOURCES_RESTORED))} > 0",
        summary="{{ $value }} resources are held since the database was restored from a backup",
        description="farrier changes nothing of these resources until an operator lifts their holds. To list them with "
        "the differences that farrier has found: farrier db holds",
    )


def _intents_unanswered() -> AlertRule:
    oldest = fleet(latest(gauges.INTENTS_OLDEST_PENDING))
    return AlertRule(
        name="FarrierIntentsUnanswered",
        severity=Severity.TICKET,
        expr=f"{oldest} > {_ANSWERED_WITHIN.total_seconds():.0f}",
        summary="An intent has had no answer for {{ $value | humanizeDuration }}",
        description=f"farrier should answer an intent within {duration.human(_ANSWERED_WITHIN)}. The alert does not "
        "count intents that a pause delays.",
    )


def _flapping() -> AlertRule:
    stays = increase(series(definitions.SHORT_STAYS), timedelta(hours=1), "kind", "state")
    return AlertRule(
        name="FarrierFlapping",
        severity=Severity.TICKET,
        # increase() extrapolates to the edges of its window, so it returns 5.08 for five stays.
        expr=f"{stays} > {SHORT_STAYS + 0.5}",
        hold=timedelta(minutes=5),
        because="a replica may be missing for a moment; the query itself counts over an hour, so that it ignores "
        "single events",
        summary="{{ $labels.kind }}s leave {{ $labels.state }} soon after entering it",
        description="In the last hour, resources left {{ $labels.state }} {{ $value | printf `%.0f` }} times, each "
        f"time within {duration.human(definitions.SHORT_STAY)} of entering it and without an intent. To list them, run "
        "farrier history list --last 1h --from {{ $labels.state }}",
    )
