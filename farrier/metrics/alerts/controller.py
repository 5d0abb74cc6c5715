"""Alerts about farrier itself: whether replicas run, count, keep up, and get their work committed."""

from __future__ import annotations

from datetime import timedelta

from farrier import errors
from farrier.config import Config
from farrier.metrics import definitions, gauges
from farrier.metrics.alerts.rules import (
    FLEET_HOLD,
    FLEET_HOLD_BECAUSE,
    STALE_AFTER,
    Alert,
    Severity,
    equals,
    fleet,
    increase,
    latest,
    one_of,
    promql,
    rate,
    series,
)
from farrier.model import duration, sweeps
from farrier.model.runs import Verdict

_NONE = timedelta(0)
_ONCE = "once is enough to be looked at, and the window keeps it in sight"

_CONFLICTS = 0.05  # of all runs; a shard that changes its owner, or an API write during a run, is one in a hundred
_ERRORS = 0.1  # of all runs; a site with a dead service is more, a few broken nodes are less
_WINDOW = timedelta(minutes=10)
_LASTS = timedelta(minutes=15)

# Cut steps are asked about every five minutes, over six, so that none falls between two windows, and one cut is in two
# of them at most.
_CUTS_EVERY = timedelta(minutes=5)
_CUTS_WINDOW = timedelta(minutes=6)
_CUTS_LOOKED_BACK = timedelta(minutes=30)
_CUTS_TIMES = 3

BUGS = (errors.UndecodableState, errors.IllegalEdge, errors.HandlerGarbage, errors.InternalError)
"""Errors that no service and no setting can cause: each is a bug, or a replica of another version."""


def alerts(config: Config) -> tuple[Alert, ...]:
    """Every alert about the controller, with the periods of these settings."""
    return (
        _controller_down(),
        _replica_down(),
        _figures_stale(),
        _replica_without_database(),
        _sweep_late(config),
        _shards_unowned(),
        _commit_conflicts(),
        _writes_refused(),
        _steps_cut(),
        _handler_bug(),
        _handler_errors(),
        _rerun_limited(),
    )


def _controller_down() -> Alert:
    return Alert(
        name="FarrierControllerDown",
        severity=Severity.PAGE,
        expr=f"absent({series(gauges.BUILD_INFO)})",
        hold=timedelta(minutes=3),
        because="a restart or an upgrade of the only replica takes less",
        summary="No replica of farrier answers Prometheus",
        description="No node is handled, or nobody can see that they are. Alerts about the fleet are silent meanwhile.",
    )


def _replica_down() -> Alert:
    return Alert(
        name="FarrierReplicaDown",
        severity=Severity.TICKET,
        # By the job: the replica itself has not been there to say what it is.
        expr=f"up == 0 and on (job) max_over_time({series(gauges.BUILD_INFO)}[1d])",
        hold=timedelta(minutes=10),
        because="a machine that boots, or a replica that drains, takes less",
        summary="A replica of farrier does not answer: {{ $labels.instance }}",
        description="Others go on with its nodes. If it was taken away for good, take it from Prometheus's targets.",
    )


def _figures_stale() -> Alert:
    return Alert(
        name="FarrierFiguresStale",
        severity=Severity.PAGE,
        expr=f"time() - max({series(gauges.COLLECTED)}) > {STALE_AFTER.total_seconds():.0f}",
        hold=timedelta(minutes=2),
        because="a fail-over of the database may take that long on top",
        summary="No replica of farrier has counted the fleet for {{ $value | humanizeDuration }}",
        description="No replica reaches the database, or the clocks of database and Prometheus differ by minutes. "
        "Alerts about the fleet are silent meanwhile.",
    )


def _replica_without_database() -> Alert:
    age, stale = f"time() - {series(gauges.COLLECTED)}", f"{STALE_AFTER.total_seconds():.0f}"
    newest = f"time() - max({series(gauges.COLLECTED)})"
    return Alert(
        name="FarrierReplicaWithoutDatabase",
        severity=Severity.TICKET,
        expr=f"max by (job, instance) ({age}) > {stale} and on () ({newest} <= {stale})",
        hold=FLEET_HOLD,
        because="a fail-over of the database is over by then",
        summary="A replica of farrier has not counted the fleet for a while: {{ $labels.instance }}",
        description="Its figures are {{ $value | humanizeDuration }} old, those of others are not. It does no work, "
        "and its figures are left out of all alerts.",
    )


def _sweep_late(config: Config) -> Alert:
    limit = sweeps.late_after(config.controller.period)
    return Alert(
        name="FarrierSweepLate",
        severity=Severity.PAGE,
        expr=f"{fleet(latest(gauges.OLDEST_SWEEP), 'kind')} > {limit.total_seconds():.0f}",
        hold=FLEET_HOLD,
        because=FLEET_HOLD_BECAUSE,
        summary="The loop of {{ $labels.kind }} does not keep up",
        description="A shard of it was last swept {{ $value | humanizeDuration }} ago; "
        f"{duration.human(limit)} are two periods or a minute.",
    )


def _shards_unowned() -> Alert:
    unowned = fleet(latest(gauges.SHARDS_UNOWNED), "kind")
    there = fleet(latest(gauges.RESOURCES), "kind", "state", "substate")
    return Alert(
        name="FarrierShardsUnowned",
        severity=Severity.PAGE,
        expr=f"{unowned} > 0 and on (kind) sum by (kind) ({there}) > 0",
        hold=FLEET_HOLD,
        because=FLEET_HOLD_BECAUSE,
        summary="No controller runs {{ $value }} of the shards of {{ $labels.kind }}",
        description="Their resources stand still. Others take the shards of a controller that ends within 13 seconds, "
        "so no controller that lives runs this kind, or none of them can take the shards.",
    )


def _commit_conflicts() -> Alert:
    lost = one_of("verdict", (Verdict.LOST, Verdict.CONFLICT, Verdict.UNKNOWN))
    conflicts = rate(series(definitions.COMMIT_CONFLICTS, lost), _WINDOW, "kind")
    runs = rate(series(definitions.HANDLER_RUNS), _WINDOW, "kind")  # those that won theirs
    return Alert(
        name="FarrierCommitConflicts",
        severity=Severity.TICKET,
        expr=f"{conflicts} / ({runs} + {conflicts}) > {_CONFLICTS}",
        hold=_LASTS,
        because="a fail-over of the database leaves some, once",
        summary="{{ $value | humanizePercentage }} of runs of {{ $labels.kind }} do not win their commit",
        description="Controllers lose shards whose resources they run, or something else writes the same rows. Nothing "
        "is lost, but work is done twice.",
    )


def _writes_refused() -> Alert:
    refused = series(definitions.COMMIT_CONFLICTS, equals("verdict", Verdict.REFUSED))
    return Alert(
        name="FarrierWritesRefused",
        severity=Severity.TICKET,
        expr=f"{increase(refused, _LASTS, 'kind')} > 0",
        hold=_NONE,
        because=_ONCE,
        summary="The database refuses what runs of {{ $labels.kind }} write",
        description="A bug, or a schema that is not this program's. The node stands still until it is mended. The log "
        "has PostgreSQL's words.",
    )


def _steps_cut() -> Alert:
    cut = increase(series(definitions.STEPS_CUT), _CUTS_WINDOW, "kind")
    looks = f"[{promql(_CUTS_LOOKED_BACK)}:{promql(_CUTS_EVERY)}]"
    return Alert(
        name="FarrierStepsCut",
        severity=Severity.TICKET,
        expr=f"count_over_time(({cut} > 0){looks}) >= {_CUTS_TIMES}",
        hold=_NONE,
        because="a fail-over of the database cuts many steps once; these are cut again and again within half an hour",
        summary="Steps of {{ $labels.kind }} are cut off because their controller is not renewed in time",
        description="The database answers too late, or the process gets too little CPU. What the steps changed outside "
        "is looked up, and they go on from there.",
    )


def _handler_bug() -> Alert:
    bugs = series(definitions.HANDLER_ERRORS, one_of("error", (error.label for error in BUGS)))
    return Alert(
        name="FarrierHandlerBug",
        severity=Severity.TICKET,
        expr=f"{increase(bugs, _LASTS, 'kind', 'error')} > 0",
        hold=_NONE,
        because=_ONCE,
        summary="A run of {{ $labels.kind }} ended in an error of farrier's own: {{ $labels.error }}",
        description="That node alone is affected. Report it with the log of the failed run (run.failed, "
        "handler.crashed).",
    )


def _handler_errors() -> Alert:
    failed = rate(series(definitions.HANDLER_ERRORS), _WINDOW, "kind")
    runs = rate(series(definitions.HANDLER_RUNS), _WINDOW, "kind")
    return Alert(
        name="FarrierHandlerErrors",
        severity=Severity.TICKET,
        expr=f"{failed} / {runs} > {_ERRORS}",
        hold=_LASTS,
        because="a service that is restarted is back by then",
        summary="{{ $value | humanizePercentage }} of runs of {{ $labels.kind }} end in an error",
        description="One node costs its own runs; so many are a cause they share, mostly a service.",
    )


def _rerun_limited() -> Alert:
    window = timedelta(hours=1)
    return Alert(
        name="FarrierRerunLimit",
        severity=Severity.TICKET,
        expr=f"{increase(series(definitions.RERUN_LIMITED), window, 'kind')} > 0",
        hold=_NONE,
        because=_ONCE,
        summary="A handler of {{ $labels.kind }} goes round in circles",
        description="A resource asked too many times in a row to be run again at once. It is slowed down; its history "
        "shows the circle.",
    )
