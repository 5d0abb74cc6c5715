"""A stand-in for the agents' door, which answers as the documented API does, and remembers every call."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

from typing_extensions import override

# Seconds that a test waits for a call of the agent; on a busy machine, Python alone starts within several seconds.
PATIENCE = 60.0
PREFIX = "/agent/v1"


class Call(NamedTuple):
    """One call of an agent."""

    name: str
    key: str
    body: dict[str, Any]


class Answer(NamedTuple):
    """What the door answers instead of its usual answer."""

    status: int
    detail: str = "no"
    headers: Mapping[str, str] = {}


class Door:
    """The door. `refusals` are answers to the next calls of a name, and `queue` has the tasks to hand out.
    `token` is that of the newest lease."""

    def __init__(self) -> None:
        self.url = ""
        self.interval = 1
        self.calls: list[Call] = []
        self.queue: list[str] = []
        self.refusals: dict[str, list[Answer]] = {}
        self.lost: set[str] = set()
        self.connections = 0
        self.token = ""
        self._facts: str | None = None
        self._leases: dict[str, dict[str, Any]] = {}
        self._changed = threading.Condition()

    def named(self, name: str) -> list[Call]:
        """Every call of this name so far."""
        with self._changed:
            return [call for call in self.calls if call.name == name]

    def wait(self, name: str, accepts: Callable[[Call], bool] = lambda _call: True, *, count: int = 1) -> Call:
        """Wait for that many calls of a name that the test accepts, and return the last one."""
        found: list[Call] = []

        def seen() -> bool:
            found[:] = [call for call in self.calls if call.name == name and accepts(call)]
            return len(found) >= count

        with self._changed:
            assert self._changed.wait_for(seen, PATIENCE), f"no such call of {name}: {self.calls[-3:]}"
        return found[-1]

    def give(self, *types: str) -> None:
        """Queue tasks of these types."""
        self.queue.extend(types)

    def answer(self, method: str, path: str, key: str, body: dict[str, Any]) -> tuple[Answer, dict[str, Any]]:
        """Return the answer to one call, and its body."""
        name = path.removeprefix(PREFIX + "/").rpartition("/")[2]
        with self._changed:
            self.calls.append(Call(name, key, body))
            self._changed.notify_all()
            waiting = self.refusals.get(name)
        if waiting:
            refusal = waiting.pop(0)
            return refusal, {"detail": refusal.detail}
        known: dict[tuple[str, str], Callable[[dict[str, Any]], dict[str, Any]]] = {
            ("POST", "enroll"): self._enroll,
            ("POST", "heartbeat"): self._beat,
            ("PUT", "facts"): self._take,
            ("POST", "claim"): self._claim,
            ("POST", "renew"): lambda _body: {},
            ("POST", "finish"): lambda _body: {},
        }
        return Answer(200), known[method, name](body)

    def _enroll(self, _body: dict[str, Any]) -> dict[str, Any]:
        return {"node": "gpu-1", "interval": self.interval}

    def _beat(self, body: dict[str, Any]) -> dict[str, Any]:
        wants = ["claim"] if self.queue else []
        if body["facts_digest"] not in (None, self._facts):
            wants.append("facts")
        return {"interval": self.interval, "wants": wants}

    def _take(self, body: dict[str, Any]) -> dict[str, Any]:
        self._facts = body["digest"]
        return {}

    def _claim(self, body: dict[str, Any]) -> dict[str, Any]:
        leased = self._leases.get(body["idempotency_key"])
        if leased is None:
            number = next((each for each, type_ in enumerate(self.queue) if type_ in body["types"]), None)
            if number is None:
                return {"task": None}
            type_ = self.queue.pop(number)
            self.token = str(uuid4())
            leased = {
                "id": 7,
                "type": type_,
                "params": {},
                "attempt": 1,
                "lease_token": self.token,
                "lease_until": "",
            }
            self._leases[body["idempotency_key"]] = leased
        return {"task": leased}


@contextmanager
def serving(door: Door, certificate: tuple[Path, Path] | None = None, *, port: int = 0) -> Iterator[Door]:
    """Serve the door on loopback, with TLS if it has a certificate, until the end of the block."""

    connections: list[socket.socket] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        @override
        def setup(self) -> None:
            super().setup()
            door.connections += 1
            connections.append(self.connection)

        def _serve(self) -> None:
            content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            key = self.headers.get("Authorization", "").removeprefix("Bearer ")
            answer, body = door.answer(self.command, self.path, key, json.loads(content))
            if self.path.rpartition("/")[2] in door.lost:
                door.lost.remove(self.path.rpartition("/")[2])
                self.close_connection = True
                return
            self.send_response(answer.status)
            sent = json.dumps(body).encode()
            for name, value in {**answer.headers, "Content-Length": str(len(sent))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(sent)

        do_POST = do_PUT = _serve  # noqa: N815 - http.server calls these

        @override
        def log_message(self, format: str, *args: object) -> None:
            """Write nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    scheme = "http"
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        scheme = "https"
    door.url = f"{scheme}://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield door
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
        for connection in connections:  # as the end of a process does
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
