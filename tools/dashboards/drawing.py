"""Draws panels as SVG, from their definitions and the results of their queries.

Colours, units, thresholds and headings are those of the panel; fonts and proportions only resemble Grafana's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Any

import msgspec

Panel = Mapping[str, Any]
_Band = list[tuple[float, float, float]]  # time, lower edge, upper edge
_Column = tuple[str, str, str, Sequence[Panel]]  # source, heading, unit, steps

_COLOURS = {"green": "#56a64b", "yellow": "#e0b400", "orange": "#ff780a", "red": "#e02f44", "blue": "#3274d9"}
_PALETTE = (
    "#3274d9",
    "#56a64b",
    "#e0b400",
    "#ff780a",
    "#a352cc",
    "#1f978f",
    "#e02f44",
    "#8a6d3b",
    "#6b7a90",
    "#c15c9a",
)
_INK, _FAINT, _GRID = "#24292e", "#6a737d", "#e1e4e8"
_TEXT, _SMALL = 12, 10  # heights of text in pixels
POINTS = 90
"""Moments of time that a panel shows."""

_ROW = 20  # height of a table's row in pixels
_LEGENDS = 8  # the largest number of series with a name beside their colour; more would leave no room for lines


class Series(msgspec.Struct, frozen=True):
    """The result of a query for one set of labels: times and values. `target` is the position of the query in the
    panel."""

    legend: str
    labels: Mapping[str, str]
    points: Sequence[tuple[float, float]]
    target: int = 0

    @property
    def last(self) -> float:
        return self.points[-1][1]


class Span(msgspec.Struct, frozen=True):
    """The displayed time range, in seconds since 1970."""

    start: float
    end: float


class Box(msgspec.Struct, frozen=True):
    """The position of an element, in pixels."""

    x: float
    y: float
    w: float
    h: float

    def inside(self, left: float, top: float, right: float, bottom: float) -> Box:
        return Box(self.x + left, self.y + top, self.w - left - right, self.h - top - bottom)


def panel(definition: Panel, box: Box, found: Sequence[Series], span: Span) -> Iterator[str]:
    """Return a panel with its frame and its title."""
    if definition["type"] == "row":
        yield text(box.x + 4, box.y + 20, definition["title"], size=15, weight="bold")
        return
    yield rect(box, "#ffffff", stroke=_GRID)
    yield text(box.x + 8, box.y + 17, definition["title"], weight="bold")
    body = box.inside(10, 28, 10, 8)
    if found:
        yield from _KINDS[definition["type"]](definition, body, found, span)
    else:
        yield text(body.x + body.w / 2, body.y + body.h / 2, "none", colour=_FAINT, anchor="middle")


def _stat(definition: Panel, box: Box, found: Sequence[Series], _span: Span) -> Iterator[str]:
    by_name = definition["options"].get("textMode") == "name"
    shown = ", ".join(one.legend if by_name else said(one.last, _unit(definition)) for one in found)
    colour = _coloured(_steps(definition), found[0].last)
    yield text(box.x + box.w / 2, box.y + box.h / 2 + 12, shown, size=30, colour=colour, anchor="middle")


def _lines(definition: Panel, box: Box, found: Sequence[Series], span: Span) -> Iterator[str]:
    stacked = definition["fieldConfig"]["defaults"]["custom"].get("stacking", {}).get("mode") == "normal"
    ranked = sorted(found, key=lambda one: max(value for _, value in one.points), reverse=True)
    named = ranked[:_LEGENDS]
    columns = 2 if box.w > 300 else 1
    graph = box.inside(44, 4, 4, 18 + 14 * -(-len(named) // columns))
    bands = _piled(named) if stacked else [(one, [(at, 0.0, value) for at, value in one.points]) for one in named]
    top = max((value for _, band in bands for _, _, value in band), default=0) or 1
    yield from _axes(graph, span, top, _unit(definition))
    for number, (one, band) in enumerate(bands):
        colour = _PALETTE[number % len(_PALETTE)]
        for piece in _unbroken(band, span):
            upper = [_at(graph, span, top, moment, value) for moment, _, value in piece]
            lower = [_at(graph, span, top, moment, floor) for moment, floor, _ in reversed(piece)]
            if stacked:
                yield f'<polygon points="{_path(upper + lower)}" fill="{colour}" fill-opacity="0.6"/>'
            else:
                yield f'<polyline points="{_path(upper)}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
        left = box.x + (number % columns) * box.w / columns
        y = graph.y + graph.h + 30 + 14 * (number // columns)
        yield rect(Box(left, y - 8, 10, 8), colour)
        label = f"{one.legend}  {said(one.last, _unit(definition))}"
        yield text(left + 14, y, label, size=_SMALL, room=box.w / columns - 16)


def _unbroken(band: _Band, span: Span) -> Iterator[_Band]:
    """Split a band where points are missing, and yield the pieces."""
    piece: _Band = []
    for point in band:
        if piece and point[0] - piece[-1][0] > (span.end - span.start) / POINTS * 1.5:
            yield piece
            piece = []
        piece.append(point)
    yield piece


def _piled(found: Sequence[Series]) -> list[tuple[Series, _Band]]:
    """Stack the series, each on top of the previous ones. Returns a list of (time, lower edge, upper edge) for each
    series."""
    floors: dict[float, float] = {}
    bands = []
    for one in found:
        band = [(at, floors.get(at, 0.0), floors.get(at, 0.0) + value) for at, value in one.points]
        floors |= {at: top for at, _, top in band}
        bands.append((one, band))
    return bands


def _axes(graph: Box, span: Span, top: float, unit: str) -> Iterator[str]:
    for share in (0, 0.5, 1):
        y = graph.y + graph.h * (1 - share)
        yield f'<line x1="{graph.x:.0f}" x2="{graph.x + graph.w:.0f}" y1="{y:.0f}" y2="{y:.0f}" stroke="{_GRID}"/>'
        yield text(graph.x - 4, y + 3, said(top * share, unit), size=_SMALL, colour=_FAINT, anchor="end")
    yield from _moments(graph, span)


def _moments(graph: Box, span: Span) -> Iterator[str]:
    for share, anchor in ((0, "start"), (0.5, "middle"), (1, "end")):
        minutes = (span.end - span.start) * (1 - share) / 60
        label = f"{minutes:g} min ago" if share < 1 else "now"
        x, y = graph.x + graph.w * share, graph.y + graph.h + 13
        yield text(x, y, label, size=_SMALL, colour=_FAINT, anchor=anchor)


def _bars(definition: Panel, box: Box, found: Sequence[Series], _span: Span) -> Iterator[str]:
    ranked = sorted(found, key=lambda one: one.last, reverse=True)
    top, high = max(one.last for one in ranked) or 1, min(box.h / len(ranked), 26)
    for number, one in enumerate(ranked):
        y, full = box.y + number * high, box.w * 0.42
        yield text(box.x, y + high / 2 + 4, one.legend, size=_SMALL, room=box.w * 0.45)
        bar = Box(box.x + box.w * 0.47, y + 3, full * one.last / top, high - 6)
        yield rect(bar, _coloured(_steps(definition), one.last))
        yield text(box.x + box.w * 0.91, y + high / 2 + 4, said(one.last, _unit(definition)), size=_SMALL)


def _cells(definition: Panel, box: Box, found: Sequence[Series], span: Span) -> Iterator[str]:
    """Draw a state timeline or a status history: a row for each series, and a cell for each span of one colour."""
    names = min(260.0, box.w * 0.3)
    grid = box.inside(names, 0, 4, 18)
    page = found[: int(definition["options"]["perPage"])]
    high = min(grid.h / len(page), 34)
    for number, one in enumerate(page):
        y = grid.y + number * high
        yield text(box.x, y + high / 2 + 4, one.legend, size=_SMALL, room=names - 8)
        for start, end, value in _runs(one, _steps(definition), span):
            left, right = (_across(grid, span, moment) for moment in (start, end))
            cell = Box(left, y + high * 0.08, max(right - left, 1), high * 0.84)
            yield rect(cell, _coloured(_steps(definition), value), opacity=0.8)
            if definition["type"] == "state-timeline" and cell.w > 60:
                zero = definition["fieldConfig"]["defaults"]["mappings"][0]["options"]["0"]["text"]
                shown = zero if value == 0 else said(value, _unit(definition))
                yield text(cell.x + cell.w / 2, y + high / 2 + 4, shown, size=_SMALL, anchor="middle")
    if len(page) < len(found):
        yield text(box.x, grid.y + grid.h + 13, f"{len(page)} of {len(found)}", size=_SMALL, colour=_FAINT)
    yield from _moments(Box(grid.x, grid.y, grid.w, high * len(page)), span)


def _runs(one: Series, steps: Sequence[Panel], span: Span) -> Iterator[tuple[float, float, float]]:
    """Yield runs of points with one colour, as (start, end, last value). A gap in the points ends a run."""
    step = min((b[0] - a[0] for a, b in zip(one.points, one.points[1:], strict=False)), default=span.end - span.start)
    run: list[tuple[float, float]] = []
    for at, value in one.points:
        if run and (at - run[-1][0] > step * 1.5 or _coloured(steps, value) != _coloured(steps, run[-1][1])):
            yield run[0][0], run[-1][0] + step, run[-1][1]
            run = []
        run.append((at, value))
    yield run[0][0], min(run[-1][0] + step, span.end), run[-1][1]


def _table(definition: Panel, box: Box, found: Sequence[Series], _span: Span) -> Iterator[str]:
    columns = list(_columns(definition))
    rows: dict[tuple[tuple[str, str], ...], dict[str, Any]] = {}
    several = len(definition["targets"]) > 1
    for one in found:
        row = rows.setdefault(tuple(sorted(one.labels.items())), dict(one.labels))
        row[f"Value #{'ABCDEFGH'[one.target]}" if several else "Value"] = one.last
    worst = definition["options"]["sortBy"][0]["displayName"]
    key = next(source for source, heading, _, _ in columns if heading == worst)
    ranked = sorted(rows.values(), key=lambda row: row.get(key, float("-inf")), reverse=True)
    places = _placed(columns, box)
    for (_, heading, _, _), (x, _) in zip(columns, places, strict=True):
        yield text(x, box.y + 8, heading, size=_SMALL, colour=_FAINT, weight="bold")
    for line, row in enumerate(ranked[: int((box.h - 14) / _ROW)]):
        for (source, _, unit, steps), (x, room) in zip(columns, places, strict=True):
            value = row.get(source, "")
            shown = said(value, unit) if isinstance(value, float) else value
            colour = _coloured(steps, value) if steps and isinstance(value, float) else _INK
            yield text(x, box.y + 26 + line * _ROW, shown, size=_SMALL + 1, colour=colour, room=room)


def _placed(columns: Sequence[_Column], box: Box) -> list[tuple[float, float]]:
    """Return the position and the width of each column. Names get twice the width of numbers."""
    weights = [1 if source.startswith("Value") else 2 for source, *_ in columns]
    share = box.w / sum(weights)
    return [(box.x + sum(weights[:number]) * share, weight * share - 6) for number, weight in enumerate(weights)]


def _columns(definition: Panel) -> Iterator[_Column]:
    """Return the columns of a table, from left to right."""
    organize = next(t for t in definition["transformations"] if t["id"] == "organize")["options"]
    overrides = {one["matcher"]["options"]: one["properties"] for one in definition["fieldConfig"]["overrides"]}
    for source, _ in sorted(organize["indexByName"].items(), key=lambda item: item[1]):
        heading = organize["renameByName"][source]
        found = {each["id"]: each["value"] for each in overrides.get(heading, ())}
        yield source, heading, found.get("unit", "short"), found.get("thresholds", {}).get("steps", ())


_KINDS: Mapping[str, Callable[[Panel, Box, Sequence[Series], Span], Iterable[str]]] = {
    "stat": _stat,
    "timeseries": _lines,
    "bargauge": _bars,
    "state-timeline": _cells,
    "status-history": _cells,
    "table": _table,
}


def rect(box: Box, fill: str, *, stroke: str = "none", opacity: float = 1) -> str:
    place = f'x="{box.x:.1f}" y="{box.y:.1f}" width="{box.w:.1f}" height="{box.h:.1f}"'
    return f'<rect {place} fill="{fill}" stroke="{stroke}" fill-opacity="{opacity}"/>'


def text(x: float, y: float, shown: str, **style: Any) -> str:
    """Return a line of text, cut to at most `room` pixels."""
    size, room = style.get("size", _TEXT), style.get("room")
    letters = int(room / (size * 0.56)) if room else len(shown)
    cut = shown if len(shown) <= letters else shown[: max(letters - 1, 1)] + "…"
    look = f'font-size="{size}" font-weight="{style.get("weight", "normal")}" fill="{style.get("colour", _INK)}"'
    return f'<text x="{x:.0f}" y="{y:.0f}" {look} text-anchor="{style.get("anchor", "start")}">{escape(cut)}</text>'


def said(value: float, unit: str) -> str:
    """Return the value in a form for people."""
    match unit:
        case "percentunit":
            return f"{value:.0%}"
        case "s":
            return _seconds(value)
        case "ops" | "reqps":
            return f"{_short(value)}/s"
        case _:
            return _short(value)


def _seconds(value: float) -> str:
    for size, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if value >= size:
            return f"{value / size:.3g} {name}"
    return f"{value:.3g} s" if value >= 1 or value == 0 else f"{value * 1000:.3g} ms"


def _short(value: float) -> str:
    return f"{value / 1000:.3g}k" if value >= 1000 else f"{value:.3g}"


def _unit(definition: Panel) -> str:
    return str(definition["fieldConfig"]["defaults"].get("unit", "short"))


def _steps(definition: Panel) -> Sequence[Panel]:
    steps: Sequence[Panel] = definition["fieldConfig"]["defaults"]["thresholds"]["steps"]
    return steps


def _coloured(steps: Sequence[Panel], value: float) -> str:
    reached = [step["color"] for step in steps if step["value"] is None or value >= step["value"]]
    return _COLOURS[reached[-1]]


def _at(graph: Box, span: Span, top: float, moment: float, value: float) -> tuple[float, float]:
    return _across(graph, span, moment), graph.y + graph.h * (1 - value / top)


def _across(graph: Box, span: Span, moment: float) -> float:
    return graph.x + graph.w * min(max((moment - span.start) / (span.end - span.start), 0), 1)


def _path(points: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{x:.0f},{y:.1f}" for x, y in points)
