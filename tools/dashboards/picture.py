"""`python -m tools.dashboards.picture`: draws the dashboards with the results of a Prometheus.

The documentation contains these pictures. Each query is sent as Grafana would send it, and its result is drawn.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Iterator, Mapping
from math import isfinite
from pathlib import Path
from typing import Any

import httpx

from farrier.metrics import dashboards
from tools.dashboards import drawing
from tools.dashboards.drawing import Box, Panel, Series, Span

_COLUMN, _LINE, _GAP = 50, 32, 4  # pixels of one unit of Grafana's grid, and between panels
_LABEL = re.compile(r"\{\{\s*(\w+)\s*\}\}")


class Prometheus:
    """A Prometheus server that is queried for one scrape job and one time range."""

    def __init__(self, client: httpx.Client, job: str, span: Span, rate: str) -> None:
        self._client = client
        self._span = span
        self._words = {
            "$job": job,
            "$__rate_interval": rate,
            "$__range": f"{span.end - span.start:.0f}s",
        }

    def answers(self, panel: Panel) -> list[Series]:
        """Return the data of a panel."""
        return [
            series
            for place, target in enumerate(panel.get("targets", ()))
            for series in self._series(place, target)
            if series.points
        ]

    def _series(self, place: int, target: Mapping[str, Any]) -> Iterator[Series]:
        expr = target["expr"]
        for word, value in self._words.items():
            expr = expr.replace(word, value)
        for found in self._ask(expr, over_time=bool(target.get("range"))):
            values = found["values"] if "values" in found else [found["value"]]
            points = [(float(at), float(value)) for at, value in values if isfinite(float(value))]
            labels = {label: value for label, value in found["metric"].items() if label != "__name__"}
            yield Series(_legend(target.get("legendFormat", ""), labels), labels, points, place)

    def _ask(self, expr: str, *, over_time: bool) -> list[dict[str, Any]]:
        if over_time:
            step = max((self._span.end - self._span.start) / drawing.POINTS, 1)
            asked = httpx.QueryParams(query=expr, start=self._span.start, end=self._span.end, step=step)
            answer = self._client.get("/api/v1/query_range", params=asked)
        else:
            answer = self._client.get("/api/v1/query", params=httpx.QueryParams(query=expr, time=self._span.end))
        answer.raise_for_status()
        found: list[dict[str, Any]] = answer.json()["data"]["result"]
        return found


def picture(board: Mapping[str, Any], prometheus: Prometheus, span: Span) -> str:
    """Return a dashboard as SVG."""
    bottom = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in board["panels"])
    wide, high = 24 * _COLUMN, bottom * _LINE
    shapes = [drawing.rect(Box(0, 0, wide, high), "#f4f5f8")]
    for panel in board["panels"]:
        place = panel["gridPos"]
        box = Box(place["x"] * _COLUMN, place["y"] * _LINE, place["w"] * _COLUMN, place["h"] * _LINE)
        shapes += drawing.panel(panel, box.inside(_GAP, _GAP, _GAP, _GAP), prometheus.answers(panel), span)
    size = f'viewBox="0 0 {wide} {high}" width="{wide}" height="{high}" font-family="Helvetica, Arial, sans-serif"'
    return "\n".join((f'<svg xmlns="http://www.w3.org/2000/svg" {size}>', *shapes, "</svg>")) + "\n"


def _legend(form: str, labels: Mapping[str, str]) -> str:
    if form in ("", "__auto"):
        return ", ".join(labels.values())
    return " ".join(_LABEL.sub(lambda found: labels.get(found[1], ""), form).split())


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m tools.dashboards.picture", description="Draw the dashboards.")
    parser.add_argument("names", nargs="*", help="dashboards; all if none is named")
    parser.add_argument("--prometheus", default="http://127.0.0.1:9090", help="address of a Prometheus")
    parser.add_argument("--job", default="farrier", help="scrape job of the fleet")
    parser.add_argument("--minutes", type=float, default=10, help="length of the shown range of time")
    parser.add_argument("--ago", type=float, default=0, help="minutes from the end of this range until now")
    parser.add_argument("--rate", default="1m", help="value of $__rate_interval")
    parser.add_argument("--out", type=Path, required=True, help="directory")
    given = parser.parse_args()
    end = time.time() - given.ago * 60
    span = Span(end - given.minutes * 60, end)
    with httpx.Client(base_url=given.prometheus, timeout=30) as client:
        prometheus = Prometheus(client, given.job, span, given.rate)
        for name in given.names or dashboards.NAMES:
            path = given.out / f"dashboard-{name}.svg"
            path.write_text(picture(dashboards.load(name), prometheus, span), encoding="utf-8")
            sys.stdout.write(f"drew {path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
