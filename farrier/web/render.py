"""Renders the page templates of this package. Values are always escaped; filters format times and durations."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from http import HTTPStatus
from pathlib import Path
from typing import Any

import jinja2
from starlette.responses import HTMLResponse

from farrier.model import duration

TEMPLATES = Path(__file__).parent / "templates"


def _ago(moment: datetime | None, now: datetime) -> str:
    """Return `4h 12m` for a time in the past, `in 30s` for a time in the future, and a dash for None."""
    if moment is None:
        return "–"
    return duration.human(now - moment) if moment <= now else f"in {duration.human(moment - now)}"


def _human(span: timedelta | float | None) -> str:
    if span is None:
        return "–"
    return duration.human(span if isinstance(span, timedelta) else timedelta(seconds=span))


_templates = jinja2.Environment(
    loader=jinja2.FileSystemLoader(TEMPLATES),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_templates.filters |= {"ago": _ago, "human": _human}


def page(template: str, values: Mapping[str, Any], status: HTTPStatus = HTTPStatus.OK) -> HTMLResponse:
    """Render the template. A name without a value is an error."""
    return HTMLResponse(_templates.get_template(template).render(values), status)
