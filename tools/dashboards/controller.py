"""How the controller itself is: replicas, shards, wakes, runs, commits, answers."""

from __future__ import annotations

from farrier.metrics import definitions, gauges
from tools.dashboards.frame import Board, Panels, Part
from tools.dashboards.panels import SOME, STALE, About, Query, Steps, layers, lines, names, number
from tools.dashboards.promql import count_rate, each, fleet, quantile, rate, rate_of_seen, total

_LATE: Steps = {None: "green", 10: "orange", 60: "red"}  # seconds; a loop that keeps up reports sweeps of every two


def board() -> Board:
    """For whoever runs farrier."""
    return Board(
        name="controller",
        title="Controller",
        answers="Whether controllers run, have all shards, keep up with them, and get their work committed.",
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
            About("Replicas", "Processes that answer Prometheus.", 3, 4),
            f"count({each(gauges.BUILD_INFO, 'instance')}) or vector(0)",
            steps={None: "red", 1: "green"},
        ),
        names(
            About("Versions", "More than one during an upgrade only.", 3, 4),
            Query(each(gauges.BUILD_INFO, "version"), "{{version}}"),
        ),
        number(
            About("Shards without a controller", "Their resources stand still.", 4, 4),
            f"sum({fleet(gauges.SHARDS_UNOWNED)})",
            steps=SOME,
        ),
        number(
            About("Oldest sweep", "Of the shard that has waited the longest.", 3, 4),
            f"max({fleet(gauges.OLDEST_SWEEP)})",
            "s",
            _LATE,
        ),
        number(
            About("Oldest unanswered intent", "Without those of paused nodes, which wait on purpose.", 4, 4),
            f"max({fleet(gauges.INTENTS_OLDEST_PENDING)})",
            "s",
            {None: "green", 60: "orange", 300: "red"},
        ),
        number(
            About("Age of the fleet's figures", "Of the replica that counted last.", 4, 4),
            f'time() - max({gauges.COLLECTED.name}{{job="$job"}})',
            "s",
            STALE,
        ),
        number(
            About("TLS not checked", "BMC settings that trust any certificate.", 3, 4),
            f"max({each(gauges.BMC_TLS_INSECURE, 'instance')})",
            steps=SOME,
        ),
    )


def _shards() -> Panels:
    return (
        lines(
            About("Shards by controller", "Of all kinds; replicas share them evenly.", 8),
            [Query(total(gauges.SHARDS, "controller"), "{{controller}}")],
        ),
        lines(
            About("Oldest sweep by kind", "How long ago the shard that has waited the longest was swept.", 8),
            [Query(fleet(gauges.OLDEST_SWEEP), "{{kind}}")],
            "s",
        ),
        lines(
            About("Wakes that wait", "No run has seen them yet.", 8),
            [Query(fleet(gauges.WAKES_PENDING), "waiting")],
        ),
        lines(
            About("Wait of a wake", "After what time 99 of 100 wakes were loaded with their resource.", 8),
            [Query(quantile(0.99, definitions.WAKE_WAIT, "kind"), "{{kind}}")],
            "s",
        ),
        lines(
            About("Wakes", "Wakes loaded a second.", 8),
            [Query(count_rate(definitions.WAKE_WAIT, "kind"), "{{kind}}")],
            "ops",
        ),
        lines(
            About("Looks for wakes", "What made the loops look, a second.", 8),
            [Query(rate(definitions.WAKEUPS, "source"), "{{source}}")],
            "ops",
        ),
        lines(
            About("Intents without an answer", "Paused nodes' among them.", 12),
            [Query(fleet(gauges.INTENTS_PENDING), "unanswered")],
        ),
        lines(
            About("Age of each replica's figures", "A replica that cannot reach the database grows old.", 12),
            [Query(f"time() - {each(gauges.COLLECTED, 'instance')}", "{{instance}}")],
            "s",
        ),
    )


def _runs() -> Panels:
    return (
        layers(
            About("Runs by outcome", "Committed runs a second.", 12),
            Query(rate_of_seen(definitions.HANDLER_RUNS, "kind", "outcome"), "{{kind}} {{outcome}}"),
            "ops",
        ),
        lines(
            About("Duration of a run", "From snapshot to outcome.", 12),
            [
                Query(quantile(0.5, definitions.HANDLER_DURATION, "kind"), "{{kind}} half"),
                Query(quantile(0.99, definitions.HANDLER_DURATION, "kind"), "{{kind}} 99 %"),
            ],
            "s",
        ),
        lines(
            About("Errors by class", "Runs that ended in an error, a second.", 12),
            [Query(rate_of_seen(definitions.HANDLER_ERRORS, "kind", "error"), "{{kind}} {{error}}")],
            "ops",
        ),
        lines(
            About("Errors by place", "The ten states and stages where most runs fail, a second.", 12),
            [
                Query(
                    f"topk(10, {rate(definitions.HANDLER_ERRORS, 'kind', 'state', 'substate')} > 0)",
                    "{{kind}} {{state}} {{substate}}",
                )
            ],
            "ops",
        ),
    )


def _commits() -> Panels:
    return (
        lines(
            About("Commits that did not win", "By verdict, a second. Refused means a bug or another schema.", 8),
            [Query(rate(definitions.COMMIT_CONFLICTS, "verdict"), "{{verdict}}")],
            "ops",
        ),
        lines(
            About("Steps cut", "Steps cut off because their controller was not renewed in time, a second.", 8),
            [Query(rate(definitions.STEPS_CUT, "kind"), "{{kind}}")],
            "ops",
        ),
        lines(
            About("Circles", "Resources slowed down for too many reruns in a row, a second.", 8),
            [Query(rate(definitions.RERUN_LIMITED, "kind"), "{{kind}}")],
            "ops",
        ),
    )
