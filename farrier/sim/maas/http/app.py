"""The region's ASGI application, in this process by an httpx transport, or over a socket of 127.0.0.1.

As in MAAS, the order of checks is: path, identity, method, operation, object. The operation changes the state. Then
power is switched and work begins; if one of these two steps fails, the response is the error. A fault that drops the
response applies after all these steps.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from urllib.parse import parse_qsl

import anyio
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from farrier.sim.faults import Fault
from farrier.sim.maas.http import routes
from farrier.sim.maas.http.call import HTML, Answer, Call, Exchange, Refused, User, encoded, form_of
from farrier.sim.maas.region import Region
from farrier.sim.serving import AppTransport, open_app

ROOT = "/MAAS/api/2.0/"
# The real time between two steps of the simulated clock.
_TICK_SECONDS = 0.02
_NOBODY = User(username="", key="::", is_superuser=False)


class RegionApp:
    """The ASGI application of one region."""

    def __init__(self, region: Region) -> None:
        self._region = region

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http"
        request = Request(scope, receive)
        form = form_of(request.headers.get("content-type", ""), await request.body())
        query = parse_qsl(request.url.query, keep_blank_values=True)
        op = next((value for name, value in [*query, *form] if name == "op"), None)
        fault = self._region.faults.strike(request.method, request.url.path, op)
        if fault is not None:
            await fault.delay()
        if fault is not None and fault.status is not None:
            answer = Answer(
                status=fault.status, content=fault.body or b"", content_type=fault.content_type, headers=fault.headers
            )
        else:
            answer = self._answer(request, op=op, query=query, form=form)
        shown = _broken(fault, answer)
        for told in self._region.on_answer:
            told(Exchange(method=request.method, path=request.url.path, query=query, form=form, answer=shown))
        headers = {**shown.headers, "content-type": shown.content_type}
        await Response(shown.content, status_code=shown.status, headers=headers)(scope, receive, send)

    def _answer(
        self,
        request: Request,
        *,
        op: str | None,
        query: list[tuple[str, str]],
        form: list[tuple[str, str]],
    ) -> Answer:
        try:
            path = _path(request.url.path)
            routes.check_known(path)
            user = self._region.keys.caller(request.headers.get("authorization"))
            if user is None and path == ["version"]:
                user = _NOBODY
            if user is None:
                raise _anonymous(request.method, op, path)
            call = Call(method=request.method, op=op, user=user, query=query, form=form)
            answer = encoded(routes.answer(self._region, call.named(path), path))
            for step in call.later:
                step()
        except Refused as refusal:
            return encoded(refusal.body, status=refusal.status, headers=refusal.headers, kind=refusal.kind)
        return answer


def _path(path: str) -> list[str]:
    if path.startswith("/MAAS/") and not path.startswith(ROOT):
        raise Refused(302, headers={"Location": "/MAAS/?next=%2FMAAS%2F"}, kind=HTML)
    known = path.removeprefix(ROOT)
    is_script = known.startswith("scripts/") and known != "scripts/"  # without a slash: maasserver/urls_api.py:717
    if not path.startswith(ROOT) or path.endswith("/") is is_script:
        raise routes.unknown(path)
    return known.strip("/").split("/")


def _anonymous(method: str, op: str | None, path: list[str]) -> Refused:
    """Return the error for a request without a key. For the list of machines, MAAS has a separate handler of such
    requests. This handler has only the operations that a machine needs to enlist."""
    if path == ["machines"]:
        return Refused(400, f"Unrecognised signature: method={method} op={op}")
    return Refused(401, "Forbidden")  # maasserver/api/auth.py:118, piston3/utils.py:44


def _broken(fault: Fault | None, answer: Answer) -> Answer:
    if fault is None or fault.status is not None:
        return answer
    content, kind = fault.spoilt(answer.content, answer.content_type)
    return Answer(status=answer.status, content=content, content_type=kind, headers=answer.headers)


class RegionTransport(AppTransport):
    """A transport that sends requests to `region` without a socket."""

    def __init__(self, region: Region) -> None:
        super().__init__(RegionApp(region))


@asynccontextmanager
async def open_region(region: Region, *, speed: float | None = None) -> AsyncIterator[str]:
    """Serve `region` on 127.0.0.1. Yields the base URL, `http://127.0.0.1:PORT/MAAS`."""
    clock = anyio.CancelScope()
    async with (
        open_app(RegionApp(region), name="maas simulation") as url,
        anyio.create_task_group() as tasks,
    ):
        if speed is not None:
            tasks.start_soon(_follow_real_time, region, speed, clock, name="maas simulation clock")
        try:
            yield f"{url}/MAAS"
        finally:
            clock.cancel()


async def _follow_real_time(region: Region, speed: float, scope: anyio.CancelScope) -> None:
    with scope:
        last = time.monotonic()
        while True:
            await anyio.sleep(_TICK_SECONDS)
            now = time.monotonic()
            region.advance(timedelta(seconds=(now - last) * speed))
            last = now
