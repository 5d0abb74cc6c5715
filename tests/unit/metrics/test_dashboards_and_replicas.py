"""The numbers on dashboards do not depend on the number of replicas, nor on one that has lost its database."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from farrier.metrics import dashboards
from tests.support.programs import program
from tests.support.promtool import Replica, labelled

_MINUTE = 30
_OLD = "0x60"  # the time of the last count: never since the start
_OFFLINE = {"resource_kind": "node", "kind": "node", "state": "offline"}
_NODES = {
    'farrier_resources{kind="node",state="active",substate=""}': "7x60",
    'farrier_resources{kind="node",state="offline",substate=""}': "2x60",
    'farrier_resources_above_sla{kind="node",state="offline",substate=""}': "1x60",
    labelled("farrier_resource_above_sla_seconds", **_OFFLINE, name="gpu-1"): "0+60x60",
    "farrier_nodes_paused": "0x60",
    'farrier_wakeups_total{source="notify"}': "0+60x60",
}
_GONE = {
    'farrier_resources{kind="node",state="active",substate=""}': "9x60",
    'farrier_resources_above_sla{kind="node",state="offline",substate=""}': "9x60",
    labelled("farrier_resource_above_sla_seconds", **_OFFLINE, name="gpu-2"): "0+60x60",
}


class _Shown(msgspec.Struct, frozen=True):
    """The result of a panel's first query: labels and a value, or nothing."""

    board: str
    panel: str
    value: float | None
    labels: Mapping[str, str] = {}

    def as_promtool_has_it(self) -> dict[str, object]:
        panels = json.loads(dashboards.path(self.board).read_text(encoding="utf-8"))["panels"]
        expr = next(panel["targets"][0]["expr"] for panel in panels if panel["title"] == self.panel)
        filled = expr.replace("$job", "farrier").replace("$__rate_interval", "5m")
        # promtool has no notation for labels without a name.
        named = f'label_replace({filled}, "__name__", "shown", "", "")'
        samples = [{"labels": labelled("shown", **self.labels), "value": self.value}]
        return {
            "expr": named,
            "eval_time": f"{_MINUTE}m",
            "exp_samples": samples if self.value is not None else [],
        }


def _check(directory: Path, replicas: Iterable[Replica], *shown: _Shown) -> None:
    series = {name: samples for replica in replicas for name, samples in replica.series().items()}
    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": samples} for name, samples in series.items()],
        "promql_expr_test": [each.as_promtool_has_it() for each in shown],
    }
    file = directory / "test.json"
    file.write_text(json.dumps({"rule_files": [], "evaluation_interval": "1m", "tests": [test]}))
    done = subprocess.run([program("promtool"), "test", "rules", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


_FLEET = (
    _Shown("fleet", "Nodes", 9),
    _Shown("fleet", "Active", 7),
    _Shown("fleet", "Above a limit", 1),
    _Shown("stuck", "Above the limit over time", 1, {"kind": "node"}),
    _Shown("fleet", "Share above the limit", 0.5, {"kind": "node", "state": "offline"}),
    _Shown("stuck", "Resources above a limit", 1),
    _Shown("stuck", "Stuck resources", 60 * _MINUTE, {**_OFFLINE, "name": "gpu-1"}),
)


def _work(replicas: int) -> tuple[_Shown, _Shown]:
    return _Shown("controller", "Replicas", replicas), _Shown(
        "controller", "Lookups of wakes", replicas, {"source": "notify"}
    )


def test_one_replica_shows_its_fleet_and_its_work(tmp_path: Path) -> None:
    _check(tmp_path, [Replica("one", _NODES)], *_FLEET, *_work(1))


def test_two_replicas_show_the_same_fleet_and_twice_the_work(tmp_path: Path) -> None:
    _check(tmp_path, [Replica("one", _NODES), Replica("two", _NODES)], *_FLEET, *_work(2))


def test_the_figures_of_a_replica_that_has_lost_its_database_are_ignored(tmp_path: Path) -> None:
    _check(tmp_path, [Replica("one", _NODES), Replica("two", _GONE, counted=_OLD)], *_FLEET)


def test_a_node_that_changes_its_state_between_the_counts_of_two_replicas_counts_once(tmp_path: Path) -> None:
    moved = {
        'farrier_resources{kind="node",state="active",substate=""}': "8x60",
        'farrier_resources{kind="node",state="offline",substate=""}': "1x60",
    }
    _check(tmp_path, [Replica("one", _NODES), Replica("two", _NODES | moved)], _Shown("fleet", "Nodes", 9))


def test_a_transition_counts_once_in_its_hour(tmp_path: Path) -> None:
    entered = {'farrier_state_entered_total{kind="node",state="offline"}': "0x27 30x60"}
    shown = _Shown("fleet", "Transitions in the last hour", 30, {"state": "offline"})
    _check(tmp_path, [Replica("one", _NODES | entered)], shown)


def test_a_stage_that_no_node_left_recently_is_not_among_the_slowest(tmp_path: Path) -> None:
    left = {
        f'farrier_time_in_state_seconds_bucket{{kind="onboarding_stage",state="{stage}",le="{le}"}}': samples
        for stage, samples in (("commission_node", "0+60x60"), ("configure_storage", "5x60"))
        for le in ("60", "+Inf")
    }
    shown = _Shown("workflows", "Slowest stages", 57, {"state": "commission_node"})
    _check(tmp_path, [Replica("one", _NODES | left)], shown)


def test_a_service_without_requests_has_no_failed_requests(tmp_path: Path) -> None:
    _check(tmp_path, [Replica("one", _NODES)], _Shown("upstream", "Vault: failed requests", 0))


def test_no_stuck_resources_are_shown_as_zero_unless_no_replica_has_counted(tmp_path: Path) -> None:
    calm = {series: samples for series, samples in _NODES.items() if "above_sla" not in series}
    _check(tmp_path, [Replica("one", calm)], _Shown("stuck", "Resources above a limit", 0))
    _check(tmp_path, [Replica("one", calm, counted=_OLD)], _Shown("stuck", "Resources above a limit", None))
