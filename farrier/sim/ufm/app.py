"""The ASGI application of a simulated UFM, which reads a request, responds, and applies faults.

`/ufmRest` requires user and password, and `/ufmRestV3` requires a token. If a fault drops the response, the operation
has already been executed.
"""

from __future__ import annotations

import base64
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from farrier.sim.ufm.manager import Manager, Refused

_JSON = "application/json"
_TEXT = "text/plain"


class ManagerApp:
    """The ASGI application of one UFM."""

    def __init__(self, manager: Manager) -> None:
        self._manager = manager

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http"
        request = Request(scope, receive)
        content = await request.body()
        parts = request.url.path.strip("/").split("/")
        op = _operation(request.method, parts[1:])
        self._manager.requests.append(op)
        fault = self._manager.faults.strike(request.method, request.url.path, op)
        if fault is not None:
            await fault.delay()
        if fault is not None and fault.status is not None:
            response = Response(
                fault.body or b"", status_code=fault.status, headers=fault.headers, media_type=fault.content_type
            )
            await response(scope, receive, send)
            return
        status, body, kind = self._answer(request, content, parts, op)
        if fault is not None:
            body, kind = fault.spoilt(body, kind)
        await Response(body, status_code=status, media_type=kind)(scope, receive, send)

    def _answer(self, request: Request, content: bytes, parts: list[str], op: str) -> tuple[int, bytes, str]:
        try:
            self._check_identity(parts[0], request.headers.get("authorization", ""))
            shown = self._shown(op, parts[1:], request)
            if shown is None:
                self._change(op, parts[1:], content)
        except Refused as refused:
            return refused.status, refused.text.encode(), _TEXT
        if shown is None:
            return (202, b"{}", _JSON) if self._manager.asynchronous else (200, b"{}", _JSON)
        return 200, msgspec.json.encode(shown), _JSON

    def _check_identity(self, root: str, header: str) -> None:
        manager = self._manager
        plain = base64.b64encode(f"{manager.username}:{manager.password}".encode()).decode()
        known = {"ufmRest": f"Basic {plain}", "ufmRestV3": f"Basic {manager.token}"}
        if root not in known:
            raise Refused(404, "no such path")
        if header != known[root]:
            raise Refused(401, "Unauthorized")

    def _shown(self, op: str, parts: list[str], request: Request) -> object:
        """Return the response to a read; None for other requests."""
        guids, qos = (request.query_params.get(name) == "true" for name in ("guids_data", "qos_conf"))
        match op:
            case "version":
                return {"ufm_release_version": "6.22.1"}
            case "list":
                return self._manager.listed(guids=guids, qos=qos)
            case "pkey":
                return self._manager.shown(parts[2], guids=guids, qos=qos)
            case _:
                return None

    def _change(self, op: str, parts: list[str], content: bytes) -> None:
        match op:
            case "delete":
                self._manager.delete(parts[2])
            case "remove":
                self._manager.remove(parts[2], parts[4].split(","))
            case "create":
                self._manager.create(_body(content))
            case "add":
                self._manager.add(_body(content))
            case "set":
                self._manager.put(_body(content))
            case "qos":
                self._manager.set_qos(_body(content))
            case _:
                raise Refused(404, "no such path")


def _operation(method: str, parts: list[str]) -> str:
    """Return the name of the operation, by the method and the path below the root."""
    match method, parts:
        case "GET", ["app", "ufm_version"]:
            return "version"
        case "GET", ["resources", "pkeys"]:
            return "list"
        case "GET", ["resources", "pkeys", _]:
            return "pkey"
        case "POST", ["resources", "pkeys", "add"]:
            return "create"
        case "POST", ["resources", "pkeys"]:
            return "add"
        case "PUT", ["resources", "pkeys", "qos_conf"]:
            return "qos"
        case "PUT", ["resources", "pkeys"]:
            return "set"
        case "DELETE", ["resources", "pkeys", _]:
            return "delete"
        case "DELETE", ["resources", "pkeys", _, "guids", _]:
            return "remove"
        case _:
            return "unknown"


def _body(content: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(content, type=dict[str, Any])
    except msgspec.DecodeError:
        raise Refused(400, "a JSON object is expected") from None
