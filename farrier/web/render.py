"""Templates: found in the package, escaped always, with a few words for times."""

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
    """`4h 12m`; what has not happened yet is `in 30s`, what never did a dash."""
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
    """The template, filled. A name that it uses and is not given is an error."""
    return HTMLResponse(_templates.get_template(template).render(values), status)
