"""Renders the page templates of this package. Values are always escaped; template filters format times, states and
links."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import jinja2
import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse

from farrier.model import duration
from farrier.model.advice.diagnosis import notes
from farrier.model.advice.recommended import Recommended
from farrier.model.node.clocks import StateClock
from farrier.model.node.layers import NODE
from farrier.model.plural import counted
from farrier.model.views.history import HistoryEntry
from farrier.model.views.timeline import TimelineRow
from farrier.web.pages import return_path

TEMPLATES = Path(__file__).parent / "templates"

# A time as PostgreSQL writes it in JSON.
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?[+-]\d\d:\d\d")
_NOT_IN_A_CLASS = re.compile(r"[^a-z0-9_-]+")


def _ago(moment: datetime | None, now: datetime) -> str:
    """Return `4h 12m` for a time in the past, `in 30s` for a time in the future, and a dash for None."""
    if moment is None:
        return "–"
    return duration.human(now - moment) if moment <= now else f"in {duration.human(moment - now)}"


def _human(span: timedelta | float | None) -> str:
    if span is None:
        return "–"
    return duration.human(span if isinstance(span, timedelta) else timedelta(seconds=span))


def _utc(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def _css(state: str) -> str:
    """Return the CSS class of a state, without its substate, and only with characters that need no escape."""
    return _NOT_IN_A_CLASS.sub("-", state.partition("/")[0].lower())


def _used(clock: StateClock, now: datetime) -> float:
    """Return the used part of a clock's limit, in percent."""
    part = (now - clock.since) / clock.limit if clock.limit else 0
    return round(min(max(100 * part, 0), 100), 1)


def _course(row: TimelineRow) -> str:
    """Return a text that describes a row of bars, for readers who cannot see the bars."""
    return ", then ".join(f"{bar.state} for {duration.human(bar.lasts)}" for bar in row.bars) or "not begun"


def _json(value: Any) -> str:
    """Return a text unchanged, and any other value as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _fact(value: Any) -> str:
    """Return the text of a value in a resource's own column. A time has the format of the rest of the page."""
    if isinstance(value, str) and _TIME.fullmatch(value):
        return _utc(datetime.fromisoformat(value))
    return _json(value)


def _labels(labels: Mapping[str, Any]) -> list[str]:
    """Return labels in the form of filters, `KEY=VALUE`."""
    return [f"{key}={_json(value)}" for key, value in labels.items()]


def path_of(kind: str, id_: int | str) -> str:
    """Return the path of a resource's page."""
    return (
        f"/nodes/{quote(str(id_), safe='')}" if kind == NODE else f"/resources/{quote(kind)}/{quote(str(id_), safe='')}"
    )


def _act_path(intent: Recommended, node: str) -> str:
    """Return the path of the form that submits a recommended intent, with its parameters filled in."""
    path = f"{path_of(NODE, node)}/act/{intent.action}"
    given = {
        name: "true" if value is True else _json(value) for name, value in intent.params.items() if value is not False
    }
    return f"{path}?{urlencode(given)}" if given else path


def _resource_path(change: HistoryEntry) -> str:
    """Return the path of a resource's page with its ID, because another one may now have the name."""
    return path_of(change.kind, change.id)


_templates = jinja2.Environment(
    loader=jinja2.FileSystemLoader(TEMPLATES),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_templates.filters |= {
    "ago": _ago,
    "human": _human,
    "utc": _utc,
    "css": _css,
    "used": _used,
    "course": _course,
    "counted": counted,
    "labels": _labels,
    "fact": _fact,
    "notes": notes,
    "act_path": _act_path,
    "resource_path": _resource_path,
}


def page(
    request: Request, template: str, values: Mapping[str, Any], status: HTTPStatus = HTTPStatus.OK
) -> HTMLResponse:
    """Render a template. If the template uses a name that is not in `values`, this is an error."""
    known = {"log_in": return_path.log_in(request), "user": getattr(request.state, "user", ""), **values}
    return HTMLResponse(_templates.get_template(template).render(known), status)
