"""The dashboard of the controllers: replicas, shards, wakes, runs, commits, response times."""

from __future__ import annotations

from farrier.metrics import definitions, gauges
from tools.dashboards.frame import Board, Panels, Part
from tools.dashboards.panels import SOME, STALE, About, Query, Steps, layers, lines, names, number
from tools.dashboards.promql import count_rate, each, fleet, quantile, rate, rate_of_seen, total

_LATE: Steps = {None: "green", 10: "orange", 60: "red"}  # seconds; a loop that keeps up reports sweeps of every two


def board() -> Board:
    """Return the dashboard for operators of farrier."""
    return Board(
        name="controller",
        title="Controller",
        answers="Whether controllers run, own all shards, keep up with them, and commit their work.",
        parts=(
            Part("Now", _now()),
            Part("Shards and wakes", _shards()),
            Part("Runs", _runs()),
            Part("Commits and steps", _commits()),
        ),
    )


def _now() -> Panels:
    return (
        number(
            About("Replicas", "Processes that respond to Prometheus.", 3, 4),
            f"count({each(gauges.BUILD_INFO, 'instance')}) or vector(0)",
            steps={None: "red", 1: "green"},
        ),
        names(
            About("Versions", "Replicas have different versions only during an upgrade.", 3, 4),
            Query(each(gauges.BUILD_INFO, "version"), "{{version}}"),
        ),
        number(
            About("Shards without a controller", "The resources in these shards make no progress.", 4, 4),
            total(gauges.SHARDS_UNOWNED),
            steps=SOME,
        ),
        number(
            About("Oldest sweep", "Age of the last sweep of the shard that has waited longest.", 3, 4),
            f"max({fleet(gauges.OLDEST_SWEEP)})",
            "s",
            _LATE,
        ),
        number(
            About("Oldest unanswered intent", "Intents that a pause delays are not counted.", 4, 4),
            f"max({fleet(gauges.INTENTS_OLDEST_PENDING)})",
            "s",
            {None: "green", 60: "orange", 300: "red"},
        ),
        number(
            About("Age of the fleet's figures", "Age of the newest count of any replica.", 4, 4),
            f'time() - max({gauges.COLLECTED.name}{{job="$job"}})',
            "s",
            STALE,
        ),
        number(
            About("TLS not checked", "Number of BMC settings that trust any certificate.", 3, 4),
            f"max({each(gauges.BMC_TLS_INSECURE, 'instance')})",
            steps=SOME,
        ),
    )


def _shards() -> Panels:
    return (
        lines(
            About("Shards by controller", "Shards of all kinds. The replicas share the shards evenly.", 8),
            [Query(total(gauges.SHARDS, "controller"), "{{controller}}")],
        ),
        lines(
            About("Oldest sweep by kind", "Time since the last sweep of the shard that has waited longest.", 8),
            [Query(fleet(gauges.OLDEST_SWEEP), "{{kind}}")],
            "s",
        ),
        lines(
            About("Pending wakes", "Wakes that no run has read yet.", 8),
            [Query(fleet(gauges.WAKES_PENDING), "waiting")],
        ),
        lines(
            About("Delay of wakes", "Time within which 99 of 100 wakes were read by a load.", 8),
            [Query(quantile(0.99, definitions.WAKE_WAIT, "kind"), "{{kind}}")],
            "s",
        ),
        lines(
            About("Wakes", "Wakes loaded per second.", 8),
            [Query(count_rate(definitions.WAKE_WAIT, "kind"), "{{kind}}")],
            "ops",
        ),
        lines(
            About("Lookups of wakes", "Lookups per second, by reason.", 8),
            [Query(rate(definitions.WAKEUPS, "source"), "{{source}}")],
            "ops",
        ),
        lines(
            About("Intents without an answer", "Includes intents of paused nodes.", 12),
            [Query(fleet(gauges.INTENTS_PENDING), "unanswered")],
        ),
        lines(
            About("Age of each replica's figures", "A growing age marks a replica that cannot reach the database.", 12),
            [Query(f"time() - {each(gauges.COLLECTED, 'instance')}", "{{instance}}")],
            "s",
        ),
    )


def _runs() -> Panels:
    return (
        layers(
            About("Runs by outcome", "Committed runs per second.", 12),
            Query(rate_of_seen(definitions.HANDLER_RUNS, "kind", "outcome"), "{{kind}} {{outcome}}"),
            "ops",
        ),
        lines(
            About("Duration of a run", "Time from snapshot to outcome.", 12),
            [
                Query(quantile(0.5, definitions.HANDLER_DURATION, "kind"), "{{kind}} median"),
                Query(quantile(0.99, definitions.HANDLER_DURATION, "kind"), "{{kind}} 99 %"),
            ],
            "s",
        ),
        lines(
            About("Errors by class", "Runs per second that ended in an error.", 12),
            [Query(rate_of_seen(definitions.HANDLER_ERRORS, "kind", "error"), "{{kind}} {{error}}")],
            "ops",
        ),
        lines(
            About("Errors by place", "The ten states and stages with the most failed runs per second.", 12),
            [
                Query(
                    f"topk(10, {rate(definitions.HANDLER_ERRORS_BY_STATE, 'kind', 'state', 'substate')} > 0)",
                    "{{kind}} {{state}} {{substate}}",
                )
            ],
            "ops",
        ),
    )


def _commits() -> Panels:
    return (
        lines(
            About(
                "Lost commits",
                ("Commits per second, by result. The result refused means a bug, or the schema of another release."),
                8,
            ),
            [Query(rate(definitions.COMMIT_CONFLICTS, "verdict"), "{{verdict}}")],
            "ops",
        ),
        lines(
            About(
                "Cancelled steps",
                "Steps per second that were cancelled because the controller did not renew its lease in time.",
                8,
            ),
            [Query(rate(definitions.STEPS_CANCELLED, "kind"), "{{kind}}")],
            "ops",
        ),
        lines(
            About(
                "Rerun limit reached",
                "Resources per second whose next run farrier delayed after too many reruns in a row.",
                8,
            ),
            [Query(rate(definitions.RERUN_LIMITED, "kind"), "{{kind}}")],
            "ops",
        ),
    )
