"""Refuses requests for unknown host names, because the name of a hostile web site may resolve to this server (DNS
rebinding).

`site` wraps the application in `KnownHosts`. Addresses and localhost are accepted, because they cannot be the name of a
web site. Prometheus and probes may use any name, because their endpoints are public and change nothing.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from http import HTTPStatus
from ipaddress import ip_address

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from farrier.web.server import refusals

UNDER_ANY_NAME = frozenset({"/metrics", "/healthz", "/readyz"})
_HOST = re.compile(r"(?:\[(?P<address>[^\[\]]+)\]|(?P<name>[^:\[\]]+))(?::[0-9]*)?")


class KnownHosts:
    """Responds with 421 to requests for an unknown host."""

    def __init__(self, app: ASGIApp, names: Collection[str]) -> None:
        self._app = app
        self._names = frozenset(map(_plain, ("localhost", *names)))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in UNDER_ANY_NAME:
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        foreign = [host for host in request.headers.getlist("host") if not self._knows(host)]
        if not foreign:
            await self._app(scope, receive, send)
            return
        error = f"the Host header {foreign[0]!r} is neither an address nor a configured name of this server"
        hint = "use its address, or add the name to http.names"
        answer = refusals.answer(request, HTTPStatus.MISDIRECTED_REQUEST, error, hint)
        await answer(scope, receive, send)

    def _knows(self, host: str) -> bool:
        found = _HOST.fullmatch(host)
        if found is None:
            return False
        if found["address"] is not None:
            return _is_address(found["address"])
        name = _plain(found["name"])
        return name in self._names or name.endswith(".localhost") or _is_address(name)


def _plain(name: str) -> str:
    return name.lower().removesuffix(".")


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
