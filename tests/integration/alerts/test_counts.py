"""Alerts on counters of processes, and on the processes themselves: when each fires, and when it must not."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from tests.support import promtool
from tests.support.promtool import Replica, firing, never

RUNS = 'farrier_handler_runs_total{kind="node",outcome="wait"}'
LOST = 'farrier_commit_conflicts_total{kind="node",verdict="lost"}'
REFUSED = 'farrier_commit_conflicts_total{kind="node",verdict="refused"}'
CUT = 'farrier_steps_cancelled_total{kind="node"}'
RERUNS = 'farrier_rerun_limited_total{kind="node"}'
BUG = 'farrier_handler_errors_total{kind="node",error="internal"}'
SERVICE = 'farrier_handler_errors_total{kind="node",error="maas"}'
SHORT = 'farrier_short_stays_total{kind="node",state="active"}'
OK = 'farrier_service_requests_total{service="maas",operation="machines",result="ok"}'
UNREACHABLE = 'farrier_service_requests_total{service="maas",operation="machines",result="unreachable"}'
ABSENT = 'farrier_service_requests_total{service="maas",operation="machines",result="absent"}'
INSECURE = "farrier_bmc_tls_insecure"

NODE = {"kind": "node", "severity": "ticket"}
MAAS = {"service": "maas", "severity": "ticket"}


class Case(msgspec.Struct, frozen=True):
    """Series of replicas, and the labels with which the alert fires at `minute`; None: it does not fire until then."""

    alert: str
    name: str
    replicas: tuple[Replica, ...]
    minute: int
    fires: Mapping[str, str] | None = None


def alike(exposes: Mapping[str, str]) -> tuple[Replica, ...]:
    """Three replicas with the same series."""
    return tuple(Replica(name, exposes) for name in "abc")


def alone(exposes: Mapping[str, str]) -> tuple[Replica, ...]:
    """Three replicas that count runs; only the second has these series, too."""
    runs = {RUNS: "0+100x200"}
    return Replica("a", runs), Replica("b", runs | dict(exposes)), Replica("c", runs)


def restarted(exposes: Mapping[str, str]) -> tuple[Replica, ...]:
    """Three replicas that restart: their series are absent for two minutes, and begin at zero again."""
    return alike({series: f"{samples} stale _x2 0x200" for series, samples in exposes.items()})


STOOD = "50x30"
STAYS = "1x9 2x9 3x9 4x9 5x4"  # five short stays in less than an hour
DOWN = "1x30 0x200"
GONE_AT_30 = Replica("c", {}, up=DOWN, counted="0+60x30 stale")

CASES = (
    Case("FarrierCommitConflicts", "one run in ten", alike({RUNS: "0+100x200", LOST: "0+10x200"}), 40, NODE),
    Case("FarrierCommitConflicts", "nothing is committed", alike({RUNS: "0x200", LOST: "0+1x200"}), 40, NODE),
    Case("FarrierCommitConflicts", "one run in fifty", alike({RUNS: "0+100x200", LOST: "0+2x200"}), 100),
    Case("FarrierCommitConflicts", "a fail-over", alike({RUNS: "0+100x200", LOST: "0x30 90x200"}), 100),
    Case("FarrierCommitConflicts", "no runs at all", alike({RUNS: "0x200", LOST: "0x200"}), 100),
    Case("FarrierCommitConflicts", "a restart", restarted({RUNS: "9000x30", LOST: STOOD}), 100),
    Case("FarrierWritesRefused", "once, on one replica", alone({REFUSED: "0x20 1x200"}), 25, NODE),
    Case("FarrierWritesRefused", "an hour later", alone({REFUSED: "0x20 1x200"}), 90, {}),
    Case("FarrierWritesRefused", "none", alike({REFUSED: "0x200"}), 100),
    Case("FarrierWritesRefused", "a restart", restarted({REFUSED: STOOD}), 100),
    Case("FarrierStepsCancelled", "again and again, on one replica", alone({CUT: "0+1x200"}), 40, NODE),
    Case("FarrierStepsCancelled", "now and then", alone({CUT: "0x10 1x9 2x9 3x9 4x200"}), 40, NODE),
    Case("FarrierStepsCancelled", "an hour later", alone({CUT: "0x10 1x9 2x9 3x9 4x200"}), 110, {}),
    Case("FarrierStepsCancelled", "twice in half an hour", alike({CUT: "0x20 1x19 2x200"}), 100),
    Case("FarrierStepsCancelled", "a fail-over", alike({CUT: "0x20 300x200"}), 100),
    Case("FarrierStepsCancelled", "a restart", restarted({CUT: STOOD}), 100),
    Case("FarrierHandlerBug", "once, on one replica", alone({BUG: "0x20 1x200"}), 25, NODE | {"error": "internal"}),
    Case("FarrierHandlerBug", "a service that fails", alike({SERVICE: "0+10x200"}), 100),
    Case("FarrierHandlerBug", "a restart", restarted({BUG: STOOD}), 100),
    Case("FarrierHandlerErrors", "one run in four", alike({RUNS: "0+100x200", SERVICE: "0+25x200"}), 40, NODE),
    Case("FarrierHandlerErrors", "a few nodes", alike({RUNS: "0+100x200", SERVICE: "0+5x200"}), 100),
    Case("FarrierHandlerErrors", "ten minutes", alike({RUNS: "0+100x200", SERVICE: "0x20 0+25x9 225x200"}), 100),
    Case("FarrierHandlerErrors", "a restart", restarted({RUNS: "100x30", SERVICE: STOOD}), 100),
    Case("FarrierRerunLimit", "once, on one replica", alone({RERUNS: "0x20 1x200"}), 25, NODE),
    Case("FarrierRerunLimit", "none", alike({RERUNS: "0x200"}), 100),
    Case("FarrierRerunLimit", "a restart", restarted({RERUNS: STOOD}), 100),
    Case("FarrierServiceFailing", "half of all", alike({OK: "0+5x200", UNREACHABLE: "0+5x200"}), 40, MAAS),
    Case("FarrierServiceFailing", "no request succeeds", alike({OK: "_x5 0x99", UNREACHABLE: "_x5 1+5x99"}), 40, MAAS),
    Case("FarrierServiceFailing", "a tenth of all", alike({OK: "0+90x200", UNREACHABLE: "0+10x200"}), 100),
    Case("FarrierServiceFailing", "three in all", alike({OK: "0x200", UNREACHABLE: "0x30 1x200"}), 100),
    Case("FarrierServiceFailing", "machines that are not there", alike({OK: "0+5x200", ABSENT: "0+50x200"}), 100),
    Case("FarrierServiceFailing", "a restart", restarted({OK: "90x30", UNREACHABLE: STOOD}), 100),
    Case(
        "FarrierFlapping",
        "one node, ten times an hour, on whichever replica",
        alike({SHORT: "0+1x200"}),
        100,
        NODE | {"state": "active"},
    ),
    Case("FarrierFlapping", "six in an hour", alone({SHORT: f"0x20 {STAYS} 6x200"}), 80, NODE | {"state": "active"}),
    Case("FarrierFlapping", "five in an hour", alone({SHORT: f"0x20 {STAYS} 5x200"}), 100),
    Case("FarrierFlapping", "a few", alike({SHORT: "0x30 1x200"}), 100),
    Case("FarrierFlapping", "the silent agents of the demo", alone({SHORT: "0x14 1x14 2x14 3x14 4x14 5x14 6x14"}), 100),
    Case("FarrierFlapping", "a restart", restarted({SHORT: STOOD}), 100),
    Case(
        "FarrierBmcTlsInsecure", "told by all", alike({INSECURE: "1x200"}), 61, {"job": "farrier", "severity": "info"}
    ),
    Case("FarrierBmcTlsInsecure", "none", alike({INSECURE: "0x200"}), 100),
    Case("FarrierBmcTlsInsecure", "half an hour", alike({INSECURE: "1x30 0x200"}), 100),
    Case(
        "FarrierControllerDown", "all are down", tuple(Replica(n, {}, up=DOWN) for n in "abc"), 34, {"severity": "page"}
    ),
    Case("FarrierControllerDown", "there never was one", (), 3, {"severity": "page"}),
    Case("FarrierControllerDown", "one of three is left", (*alike({})[:1], GONE_AT_30), 100),
    Case("FarrierControllerDown", "a restart", tuple(Replica(n, {}, up="1x30 0x1 1x200") for n in "abc"), 100),
    Case(
        "FarrierReplicaDown",
        "one of three",
        (*alike({})[:2], GONE_AT_30),
        42,
        {"job": "farrier", "instance": "c", "severity": "ticket"},
    ),
    Case("FarrierReplicaDown", "a restart", tuple(Replica(n, {}, up="1x30 0x5 1x200") for n in "abc"), 100),
    Case("FarrierReplicaDown", "all are up", alike({}), 100),
    Case(
        "FarrierFiguresStale",
        "the database is gone",
        tuple(Replica(n, {}, counted="0x200") for n in "abc"),
        6,
        {"severity": "page"},
    ),
    Case("FarrierFiguresStale", "not counted yet", (Replica("a", {}, counted="0x200"),), 6, {"severity": "page"}),
    Case("FarrierFiguresStale", "one replica is cut off", (*alike({})[:2], Replica("c", {}, counted="0x200")), 100),
    Case(
        "FarrierFiguresStale",
        "a fail-over",
        tuple(Replica(n, {}, counted="0+60x10 600x3 840+60x200") for n in "abc"),
        100,
    ),
    Case(
        "FarrierReplicaWithoutDatabase",
        "one of three",
        (*alike({})[:2], Replica("c", {}, counted="0x200")),
        9,
        {"job": "farrier", "instance": "c", "severity": "ticket"},
    ),
    Case(
        "FarrierReplicaWithoutDatabase",
        "all, which is another alert",
        tuple(Replica(n, {}, counted="0x200") for n in "abc"),
        100,
    ),
    Case("FarrierReplicaWithoutDatabase", "none", alike({}), 100),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.alert}-{case.name}")
def test_an_alert_fires_exactly_when_its_case_says(case: Case, tmp_path: Path) -> None:
    if case.fires is None:
        expected = never(case.alert, case.minute)
    else:
        expected = firing(case.alert, case.minute, *filter(None, (case.fires,)))
    promtool.check(tmp_path, case.replicas, expected)
