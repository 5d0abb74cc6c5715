"""The page on which an operator lifts the brake of a site, or ends a lift."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from farrier.errors import RefusedByModel
from farrier.model import duration
from farrier.model.api_token import Scope
from farrier.model.intents.params import BRAKE_LIFT_MAX, REASON_MAX
from farrier.model.views.fleet import BrakeView
from farrier.web.pages import forms
from farrier.web.server.access import authorize
from farrier.web.server.backend import backend_of
from farrier.web.server.refusals import is_fault

PATH = "/brake-lift"
_REASON, _LASTS = "reason", "lasts"
_USUAL = "1h"


async def lift(request: Request) -> Response:
    """GET and POST /brake-lift?site=…; without a site, the brake of the nodes without a site."""
    requests = backend_of(request).requests
    client, site = await authorize(request, Scope.INTENT), request.query_params.get("site", "")
    if request.method != "POST":
        return _page(request, site, {}, "")
    given = await forms.submitted(request)
    try:
        lasts = _duration(given.get(_LASTS, "").strip() or _USUAL)
        await requests.lift_brake(site, reason=given.get(_REASON, "").strip(), lasts=lasts, requested_by=client)
    except ValueError as wrong:
        return _page(request, site, given, str(wrong), HTTPStatus.BAD_REQUEST)
    except RefusedByModel as refused:
        if is_fault(refused):
            raise
        return _page(request, site, given, f"{refused.text}. {refused.hint}".rstrip(". "), HTTPStatus.CONFLICT)
    return RedirectResponse("/controllers", HTTPStatus.SEE_OTHER)


def _duration(text: str) -> timedelta:
    """Parse how long the brake stays lifted. Raises ValueError."""
    found = duration.parse(text)
    if found > BRAKE_LIFT_MAX:
        raise ValueError(f"expected a duration of at most {duration.human(BRAKE_LIFT_MAX)}, got {text!r}")
    return found


def _page(
    request: Request, site: str, given: Mapping[str, str], problem: str, status: HTTPStatus = HTTPStatus.OK
) -> Response:
    values = {
        "at": "controllers",
        "brake": BrakeView(site=site),
        "given": given,
        "problem": problem,
        "usual": _USUAL,
        "reason_field": _REASON,
        "lasts_field": _LASTS,
        "longest_reason": REASON_MAX,
    }
    return forms.page(request, "brake.html", values, status)


ROUTES = [Route(PATH, lift, methods=["GET", "POST"])]
