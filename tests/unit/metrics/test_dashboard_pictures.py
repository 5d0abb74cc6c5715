"""Pictures of dashboards show Prometheus' results, for every type of panel that the dashboards have."""

from __future__ import annotations

from xml.etree import ElementTree

import httpx
import pytest

from farrier.metrics import dashboards
from tools.dashboards.drawing import Span
from tools.dashboards.picture import Prometheus, picture

_SPAN = Span(1_000_000, 1_000_600)


def _drawn(name: str, *found: dict[str, str]) -> ElementTree.Element:
    """A drawn dashboard, every query of which returned the value 3 for each of these label sets."""

    def answer(request: httpx.Request) -> httpx.Response:
        query = request.url.params["query"]
        assert "$job" not in query and "$__" not in query
        points = {"values": [[_SPAN.start + 60 * n, "3"] for n in range(10) if n != 5]}
        value = points if request.url.path.endswith("query_range") else {"value": [_SPAN.end, "3"]}
        return httpx.Response(200, json={"data": {"result": [{"metric": labels, **value} for labels in found]}})

    with httpx.Client(base_url="http://prometheus.test", transport=httpx.MockTransport(answer)) as client:
        return ElementTree.fromstring(picture(dashboards.load(name), Prometheus(client, "farrier", _SPAN, "1m"), _SPAN))


def _texts(drawn: ElementTree.Element) -> list[str]:
    return [each.text or "" for each in drawn.iter("{http://www.w3.org/2000/svg}text")]


@pytest.mark.parametrize("name", dashboards.NAMES)
def test_every_panel_is_drawn_with_its_title(name: str) -> None:
    titles = {panel["title"] for panel in dashboards.load(name)["panels"]}
    assert titles <= set(_texts(_drawn(name, {"kind": "node", "state": "offline"})))


def test_a_table_has_a_row_with_the_results_of_each_resource() -> None:
    texts = _texts(_drawn("stuck", {"name": "gpu-1", "kind": "node"}, {"name": "gpu-2", "kind": "<management>"}))
    assert {"gpu-1", "gpu-2", "<management>", "3 s"} <= set(texts)


def test_a_panel_without_results_shows_none() -> None:
    panels = [panel for panel in dashboards.load("fleet")["panels"] if panel["type"] != "row"]
    assert _texts(_drawn("fleet")).count("none") == len(panels)


def test_a_line_is_broken_where_points_are_missing() -> None:
    texts = ElementTree.tostring(_drawn("controller", {"kind": "node"}), encoding="unicode")
    lines = len([panel for panel in dashboards.load("controller")["panels"] if panel["type"] == "timeseries"])
    assert texts.count("polyline") > lines
