"""Dashboards are sound: the shipped files are those that the code generates, they fit Grafana's model, and every query
uses existing series and labels."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

from farrier.metrics import dashboards, definitions, gauges
from farrier.metrics.runbooks import Runbooks
from farrier.model.node.failures import FailureClass
from farrier.model.node.limits import END_TO_END
from farrier.wiring.vocabulary import vocabulary
from tests.support.programs import program
from tests.support.series import FLEET, LABELS
from tools.dashboards import BOARDS, promql, text

SHIPPED = {name: json.loads(dashboards.path(name).read_text(encoding="utf-8")) for name in dashboards.NAMES}

_SERIES = re.compile(r"\b(farrier_\w+)\b")
_SELECTOR = re.compile(r"\b(farrier_\w+)\{([^}]*)\}")
_MATCHER = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"')
_GROUPED = re.compile(r"\b(?:by|on) \(([^)]*)\)")
_LARGEST = re.compile(r"\bmax(?: by \([^)]*\))? \((?:sum by \([^)]*\) \()?(farrier_\w+)\{")
_VARIABLE = re.compile(r"\$\{?([a-z_]\w*)")
_OF_GRAFANA = {"__rate_interval", "__range", "__data"}


def _panels(board: dict[str, Any]) -> list[dict[str, Any]]:
    return [panel for panel in board["panels"] if panel["type"] != "row"]


def _queries() -> Iterator[tuple[str, str, str]]:
    """(where, expression, legend) of every query."""
    for name, board in SHIPPED.items():
        for panel in _panels(board):
            for target in panel["targets"]:
                yield f"{name}: {panel['title']}", target["expr"], target.get("legendFormat", "")


QUERIES = list(_queries())


def test_the_shipped_files_are_those_that_the_code_generates() -> None:
    assert [board.name for board in BOARDS] == list(dashboards.NAMES)
    for board in BOARDS:
        assert dashboards.path(board.name).read_text(encoding="utf-8") == text(board), "run: make docs"
    assert {path.stem for path in dashboards.HERE.glob("*.json")} == set(dashboards.NAMES)


@pytest.mark.parametrize("name", dashboards.NAMES)
def test_a_dashboard_survives_a_round_trip_through_grafanas_model(name: str) -> None:
    register_default_plugins()
    model = Dashboard.from_json(SHIPPED[name])
    assert json.loads(json.dumps(model, cls=JSONEncoder)) == SHIPPED[name]


def test_each_dashboard_has_a_fixed_uid_and_a_description() -> None:
    assert [board["uid"] for board in SHIPPED.values()] == [f"farrier-{name}" for name in dashboards.NAMES]
    assert all(board["description"] and board["schemaVersion"] for board in SHIPPED.values())
    assert all("id" not in board for board in SHIPPED.values()), (
        "Grafana assigns ids; an id in the file would overwrite another dashboard"
    )


@pytest.mark.parametrize("name", dashboards.NAMES)
def test_every_panel_has_a_description_and_queries_the_selected_prometheus(name: str) -> None:
    panels = SHIPPED[name]["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in _panels(SHIPPED[name]):
        assert panel["title"] and panel["description"].endswith("."), panel["title"]
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        references = [target["refId"] for target in panel["targets"]]
        assert references and len(set(references)) == len(references)
        assert all(target["datasource"] == panel["datasource"] for target in panel["targets"])


@pytest.mark.parametrize("name", dashboards.NAMES)
def test_panels_do_not_overlap_and_fill_the_width_of_the_grid(name: str) -> None:
    places = [(panel["title"], panel["gridPos"]) for panel in SHIPPED[name]["panels"]]
    for (one, a), (other, b) in combinations(places, 2):
        apart = a["x"] + a["w"] <= b["x"] or b["x"] + b["w"] <= a["x"]
        above = a["y"] + a["h"] <= b["y"] or b["y"] + b["h"] <= a["y"]
        assert apart or above, f"{one} lies on {other}"
    for line in {place["y"] for _, place in places}:
        assert sum(place["w"] for _, place in places if place["y"] == line) == 24


def test_prometheus_accepts_every_query(tmp_path: Path) -> None:
    rules = [{"record": f"query:{number}", "expr": _filled(expr)} for number, (_, expr, _) in enumerate(QUERIES)]
    file = tmp_path / "queries.json"
    file.write_text(json.dumps({"groups": [{"name": "queries", "rules": rules}]}))
    done = subprocess.run([program("promtool"), "check", "rules", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(QUERIES)} rules found" in done.stdout


def _filled(expr: str) -> str:
    """The expression with variables filled in, as Grafana sends it."""
    return expr.replace("$job", "farrier").replace("$__rate_interval", "1m").replace("$__range", "6h")


def test_a_query_uses_existing_series_and_labels() -> None:
    for where, expr, legend in QUERIES:
        series = _SERIES.findall(expr)
        assert series and set(series) <= LABELS.keys(), where
        for name, inside in _SELECTOR.findall(expr):
            assert {label for label, _, _ in _MATCHER.findall(inside)} <= {*LABELS[name], "job"}, where
        grouped = {label.strip() for labels in _GROUPED.findall(expr) for label in labels.split(",")}
        labels = {label for name in series for label in LABELS[name]} | {"job", "instance"}
        assert grouped <= labels | set(re.findall(r'label_replace\(.*?"(\w+)", "\$1"', expr)), where
        assert set(re.findall(r"\{\{(\w+)\}\}", legend)) <= grouped, f"{where}: its legend names what it drops"


def test_a_query_selects_one_fleet_and_counts_no_replica_twice() -> None:
    for where, expr, _ in QUERIES:
        for name, inside in _SELECTOR.findall(expr):
            assert 'job="$job"' in inside, (where, name)
        assert FLEET.intersection(_SERIES.findall(expr)) == FLEET.intersection(_LARGEST.findall(expr)), where


def test_every_label_value_in_a_query_is_exported() -> None:
    words = vocabulary()
    layers = [layer for kind in words.kinds.values() for layer in kind.spec.every_layer]
    known = {
        "kind": {layer.label for layer in layers},
        "state": {state for layer in layers for state in (*layer.entered, *layer.left)},
        "service": set(words.services),
        "result": {
            each for operations in words.services.values() for results in operations.values() for each in results
        },
    }
    known["state"].add(END_TO_END)
    for where, expr, _ in QUERIES:
        for label, _, values in _MATCHER.findall(expr):
            if label in known:
                assert set(values.split("|")) <= known[label], where


@pytest.mark.parametrize("name", dashboards.NAMES)
def test_every_variable_in_a_panel_is_declared_by_its_dashboard(name: str) -> None:
    board = SHIPPED[name]
    known = {variable["name"] for variable in board["templating"]["list"]}
    used = set(_VARIABLE.findall(json.dumps(board["panels"])))
    assert used - _OF_GRAFANA <= known
    assert known <= used | {"job"}, "a variable that changes nothing"


def test_the_stuck_resource_is_a_link_to_its_page_and_its_runbook() -> None:
    for url, suffix in (("https://docs.example", ".md"), ("https://docs.example/{page}/", "/")):
        board = dashboards.load("stuck", pages="https://farrier.example/", runbooks=Runbooks.at(url))
        variables = {variable["name"]: variable["query"] for variable in board["templating"]["list"]}
        assert (variables["pages"], variables["runbooks"]) == ("https://farrier.example", "https://docs.example")
        links = re.findall(r'"url": "(\$[^"]+)"', json.dumps(board))
        assert "${pages:raw}/resources/${__data.fields.Kind:percentencode}/${__data.fields.Name:percentencode}" in links
        assert any(link.startswith(f"${{runbooks:raw}}/reference/failures{suffix}#failure-") for link in links)


def test_every_link_to_a_runbook_leads_to_an_existing_page() -> None:
    docs = Path(__file__).parents[3] / "docs"
    pages = re.findall(r"\$\{runbooks:raw\}/([\w/]+\.md)", json.dumps(SHIPPED["stuck"]))
    assert pages and all((docs / page).is_file() for page in pages)
    failures = (docs / "reference" / "failures.md").read_text(encoding="utf-8")
    assert [failure for failure in FailureClass if f"\n### failure {failure}\n" not in failures] == []


def test_a_label_that_a_metric_lacks_is_refused() -> None:
    with pytest.raises(ValueError, match="no label of this metric: colour"):
        promql.fleet(gauges.RESOURCES, "colour")
    with pytest.raises(ValueError, match="no label of this metric: colour"):
        promql.rate(definitions.WAKEUPS, where='colour="red"')
