"""Alerts about farrier itself: whether replicas run, count the fleet, run their resources in time, and can commit."""

from __future__ import annotations

from datetime import timedelta

from farrier import errors
from farrier.config import Config
from farrier.metrics import definitions, gauges
from farrier.metrics.alerts.rules import (
    STALE_AFTER,
    AlertRule,
    Severity,
    equals,
    fleet,
    increase,
    latest,
    one_of,
    promql,
    rate,
    series,
    total,
)
from farrier.model import duration
from farrier.model.loop.runs import CommitVerdict
from farrier.model.views import sweeps

_NONE = timedelta(0)
_ONCE = (
    "even a single failure needs a report; the alert ends when the time range of its query no longer includes the "
    "failure"
)

_CONFLICTS = 0.05  # share of all runs; changes of a shard's owner cause fewer than one in a hundred
_ERRORS = 0.1  # share of all runs; a dead service at a site causes more errors, a few broken nodes cause fewer
_WINDOW = timedelta(minutes=10)
_LASTS = timedelta(minutes=15)

# Every five minutes, the query examines a window of six minutes. So no cancelled step is between two windows, and each
# cancelled step is in at most two windows.
_CANCELLED_EVERY = timedelta(minutes=5)
_CANCELLED_WINDOW = timedelta(minutes=6)
_CANCELLED_LOOKED_BACK = timedelta(minutes=30)
_CANCELLED_TIMES = 3

BUGS = (errors.UndecodableState, errors.IllegalEdge, errors.HandlerGarbage, errors.InternalError)
"""Errors that no service and no setting can cause. The cause is a bug, or a replica of another release."""


def alerts(config: Config) -> tuple[AlertRule, ...]:
    """Return every alert about the controller, with the periods of these settings."""
    return (
        _controller_down(),
        _replica_down(),
        _figures_stale(),
        _replica_without_database(),
        _sweep_late(config),
        _shards_unowned(),
        _doors_dead(),
        _commit_conflicts(),
        _writes_refused(),
        _steps_cancelled(),
        _handler_bug(),
        _handler_errors(),
        _rerun_limited(),
    )


def _controller_down() -> AlertRule:
    return AlertRule(
        name="FarrierControllerDown",
        severity=Severity.PAGE,
        expr=f"absent({series(gauges.BUILD_INFO)})",
        hold=timedelta(minutes=3),
        because="a restart or an upgrade of the only replica takes less time",
        summary="No replica of farrier responds to Prometheus",
        description="Either no replica runs, or Prometheus cannot reach any replica. Until this is fixed, alerts "
        "about the fleet cannot fire.",
    )


def _replica_down() -> AlertRule:
    return AlertRule(
        name="FarrierReplicaDown",
        severity=Severity.TICKET,
        # By job, because a replica that is down may not have exported any metric of farrier.
        expr=f"up == 0 and on (job) max_over_time({series(gauges.BUILD_INFO)}[1d])",
        hold=timedelta(minutes=10),
        because="a reboot of the replica's machine takes less time",
        summary="A replica of farrier does not respond: {{ $labels.instance }}",
        description="If other replicas run the same kinds, they have taken over its shards. If it was the only replica "
        "that runs a kind, FarrierShardsUnowned fires, too. If you removed the replica, also remove it from the "
        "targets of Prometheus.",
    )


def _figures_stale() -> AlertRule:
    return AlertRule(
        name="FarrierFiguresStale",
        severity=Severity.PAGE,
        expr=f"time() - max({series(gauges.COLLECTED)}) > {STALE_AFTER.total_seconds():.0f}",
        hold=timedelta(minutes=2),
        because="a fail-over of the database can delay the next count of the fleet by this much",
        summary="No replica of farrier has counted the fleet for {{ $value | humanizeDuration }}",
        description="Either no replica can reach the database, or the clocks of the database and of Prometheus "
        "differ by minutes. Until this is fixed, alerts about the fleet cannot fire.",
    )


def _replica_without_database() -> AlertRule:
    age, stale = f"time() - {series(gauges.COLLECTED)}", f"{STALE_AFTER.total_seconds():.0f}"
    newest = f"time() - max({series(gauges.COLLECTED)})"
    return AlertRule(
        name="FarrierReplicaWithoutDatabase",
        severity=Severity.TICKET,
        expr=f"max by (job, instance) ({age}) > {stale} and on () ({newest} <= {stale})",
        because="a fail-over of the database takes less time",
        summary="A replica of farrier no longer counts the fleet: {{ $labels.instance }}",
        description="The figures of this replica are {{ $value | humanizeDuration }} old; the figures of other "
        "replicas are current. This replica handles no nodes, and no alert uses its figures.",
    )


def _sweep_late(config: Config) -> AlertRule:
    limit = sweeps.late_after(config.controller.period)
    return AlertRule(
        name="FarrierSweepLate",
        severity=Severity.PAGE,
        expr=f"{fleet(latest(gauges.OLDEST_SWEEP), 'kind')} > {limit.total_seconds():.0f}",
        summary="The loop of {{ $labels.kind }} is overloaded or hangs",
        description="For one shard, {{ $value | humanizeDuration }} have passed since a controller last ran all "
        f"resources of the shard. The limit is {duration.human(limit)}: two periods, and at least a minute.",
    )


def _shards_unowned() -> AlertRule:
    unowned = fleet(latest(gauges.SHARDS_UNOWNED), "kind")
    there = total(latest(gauges.RESOURCES), "kind")
    return AlertRule(
        name="FarrierShardsUnowned",
        severity=Severity.PAGE,
        expr=f"{unowned} > 0 and on (kind) {there} > 0",
        summary="No controller runs {{ $value }} of the shards of {{ $labels.kind }}",
        description="Nothing happens to the resources in these shards. Live controllers take the shards of a dead "
        "controller within 13 seconds. So either no live controller runs this kind, or no controller can "
        "take the shards.",
    )


def _doors_dead() -> AlertRule:
    dead = fleet(latest(gauges.DOORS_DEAD), "pulse")
    return AlertRule(
        name="FarrierDoorsDead",
        severity=Severity.PAGE,
        expr=f"{dead} > 0",
        summary="For {{ $value | humanizeDuration }}, no agent could report by a door (pulse {{ $labels.pulse }} lost)",
        description="Pulse doors lost: no server for agents runs or can commit. Pulse agents lost: servers for agents "
        "run, but have reached none of at least five expected agents; their certificate may have expired. Until this "
        "is fixed, silence takes no node out of service whose agent uses doors, not even the node of a dead machine.",
    )


def _commit_conflicts() -> AlertRule:
    lost = one_of("verdict", (CommitVerdict.LOST, CommitVerdict.CONFLICT, CommitVerdict.UNKNOWN))
    conflicts = rate(series(definitions.COMMIT_CONFLICTS, lost), _WINDOW, "kind")
    runs = rate(series(definitions.HANDLER_RUNS), _WINDOW, "kind")  # committed runs
    return AlertRule(
        name="FarrierCommitConflicts",
        severity=Severity.TICKET,
        expr=f"{conflicts} / ({runs} + {conflicts}) > {_CONFLICTS}",
        hold=_LASTS,
        because="a fail-over of the database causes only a few conflicts, and only for a moment",
        summary="{{ $value | humanizePercentage }} of the runs of {{ $labels.kind }} fail to commit",
        description="Controllers lose shards during runs, other programs change the rows during runs, or the network "
        "breaks connections during commits. No data is lost, but farrier repeats the work.",
    )


def _writes_refused() -> AlertRule:
    refused = series(definitions.COMMIT_CONFLICTS, equals("verdict", CommitVerdict.REFUSED))
    return AlertRule(
        name="FarrierWritesRefused",
        severity=Severity.TICKET,
        expr=f"{increase(refused, _LASTS, 'kind')} > 0",
        hold=_NONE,
        because=_ONCE,
        summary="The database rejects writes by the handler of {{ $labels.kind }}",
        description="This is a bug, or the schema belongs to another release. The resource makes no progress until "
        "the cause is fixed. The log has PostgreSQL's error.",
    )


def _steps_cancelled() -> AlertRule:
    cancelled = increase(series(definitions.STEPS_CANCELLED), _CANCELLED_WINDOW, "kind")
    looks = f"[{promql(_CANCELLED_LOOKED_BACK)}:{promql(_CANCELLED_EVERY)}]"
    return AlertRule(
        name="FarrierStepsCancelled",
        severity=Severity.TICKET,
        expr=f"count_over_time(({cancelled} > 0){looks}) >= {_CANCELLED_TIMES}",
        hold=_NONE,
        because="the query already requires several cancellations of steps within half an hour; a fail-over of the "
        "database cancels steps only once",
        summary="Steps of {{ $labels.kind }} are cancelled because their controller cannot renew its lease in time",
        description="The database responds too late, or the process gets too little CPU. farrier reads which changes "
        "the cancelled steps made in outside services, and continues from there.",
    )


def _handler_bug() -> AlertRule:
    bugs = series(definitions.HANDLER_ERRORS, one_of("error", (error.label for error in BUGS)))
    return AlertRule(
        name="FarrierHandlerBug",
        severity=Severity.TICKET,
        expr=f"{increase(bugs, _LASTS, 'kind', 'error')} > 0",
        hold=_NONE,
        because=_ONCE,
        summary="A run of {{ $labels.kind }} failed with an internal error: {{ $labels.error }}",
        description="Other resources are not affected. Report the error with the log of the failed run (run.failed, "
        "handler.crashed).",
    )


def _handler_errors() -> AlertRule:
    failed = rate(series(definitions.HANDLER_ERRORS), _WINDOW, "kind")
    runs = rate(series(definitions.HANDLER_RUNS), _WINDOW, "kind")
    return AlertRule(
        name="FarrierHandlerErrors",
        severity=Severity.TICKET,
        expr=f"{failed} / {runs} > {_ERRORS}",
        hold=_LASTS,
        because="a restart of a service takes less time",
        summary="{{ $value | humanizePercentage }} of the runs of {{ $labels.kind }} end in an error",
        description="If many runs end in an error, there is usually a common cause, such as an outside service.",
    )


def _rerun_limited() -> AlertRule:
    window = timedelta(hours=1)
    return AlertRule(
        name="FarrierRerunLimit",
        severity=Severity.TICKET,
        expr=f"{increase(series(definitions.RERUN_LIMITED), window, 'kind')} > 0",
        hold=_NONE,
        because=_ONCE,
        summary="A handler of {{ $labels.kind }} repeats the same transitions",
        description="The handler of a resource requested too many immediate reruns in a row, so farrier delays the "
        "next runs. The history of the resource shows the repeated transitions.",
    )
