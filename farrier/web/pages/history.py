"""The page of history: the changes of all resources, the newest first, with filters and a link to older changes."""

from __future__ import annotations

from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from farrier.model.node.layers import NODE
from farrier.web.api import decoding as reading
from farrier.web.api.history import OfAll
from farrier.web.pages import render
from farrier.web.pages.query import Address, without_blanks
from farrier.web.server.backend import backend_of

_ROWS = 100
# The refresh interval of a page that is open in a browser; a page with older changes does not change.
_LIVE_SECONDS = 10
# The name of each text field, the value by which it filters, and an example.
_FIELDS = (
    ("resource", "resource", "node/gpu-1"),
    ("layer", "layer", "status"),
    ("from", "from", "active"),
    ("to", "to", "offline"),
    ("cause", "cause", "intent 7"),
    ("requested_by", "by", "ann"),
    ("reason", "reason contains", "heartbeat"),
    ("at_least", "previous state lasted at least", "5m"),
    ("since", "since", "2h"),
    ("until", "until", "2026-01-31T12:00:00Z"),
)


@without_blanks
async def history(request: Request) -> Response:
    """GET /history?resource=KIND/NAME&kind=…&layer=…&from=…&to=…&…&after=KEY

    If `resource` contains no kind, the page uses the kind in the form, or nodes if the form contains no kind.
    """
    backend, given = backend_of(request), request.query_params
    if (name := given.get("resource", "/")) and "/" not in name:
        resource = f"{given.get('kind', NODE)}/{name}"
        return RedirectResponse(Address(given.multi_items()).replaced("resource", resource), HTTPStatus.SEE_OTHER)
    filter_ = reading.parameters(request, OfAll, reading.fields(OfAll, "/history"))
    wanted, key = filter_.wanted(), filter_.key()
    page = await backend.queries.history(wanted, after=key, limit=_ROWS)
    address = Address(given.multi_items())
    values = {
        "at": "history",
        "every": _LIVE_SECONDS if key is None else 0,
        "changes": page.changes,
        "older": None if page.following is None else address.page(page.following.text),
        "newest": address.first() if key is not None else None,
        "fields": [(name, label, example, given.get(name, "")) for name, label, example in _FIELDS],
        "kinds": [kind.kind for kind in await backend.queries.kinds(counted=False)],
        "chosen": wanted.kinds,
        "filtered": bool(address.pairs),
    }
    return render.page(request, "history.html", values)
