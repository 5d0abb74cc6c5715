"""A Vault for tests: a KV version 2 engine over HTTPS that can be sealed, and that misbehaves on demand.

It stores versions of secrets, deletes and destroys them, accepts one token, denies it some paths, and records its
requests. Its responses have the form of those in `vault_recorded`; the contract suite compares them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import Enum, auto
from pathlib import Path
from typing import Any, TypeAlias

import anyio
import anyio.abc
import msgspec

from farrier.sim.certificates import Authority, ServerFiles
from tests.support import vault_recorded as recorded
from tests.support.sockets import Peer, head, parsed, talking, tls_with
from tests.support.vault_recorded import Recorded

TOKEN = "hvs.t0k3n"
MOUNT = "secret"
LOOK_UP = "/v1/auth/token/lookup-self"


class Misbehaviour(Enum):
    """What the server does instead of sending a complete response."""

    SILENCE = auto()  # accepts the request and sends no response
    HALF = auto()  # sends a part of a response
    FLOOD = auto()  # sends without end
    HANG_UP = auto()  # closes the connection


class Raw(msgspec.Struct, frozen=True):
    """A response that Vault itself would not send."""

    status: int
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()


Answer: TypeAlias = Recorded | Raw | Misbehaviour


class Request(msgspec.Struct, frozen=True):
    """A request that the server received."""

    method: str
    path: str
    headers: dict[str, str]


class _Version(msgspec.Struct):
    data: dict[str, Any]
    deleted: bool = False
    destroyed: bool = False


class FakeVault:
    """The server's secrets and misbehaviour, and the requests that it received."""

    def __init__(self, address: str, ca_file: Path) -> None:
        self.address = address
        self.ca_file = ca_file
        self.requests: list[Request] = []
        self.tokens = {TOKEN}
        self.mounts = {MOUNT}
        self.forbidden: set[str] = set()
        self.sealed = self.limited = self.standby = False
        self.replays: dict[str, Answer] = {}
        self.asked = anyio.Event()
        self._secrets: dict[str, list[_Version]] = {}
        self._gate = anyio.Event()
        self._gate.set()

    def put(self, path: str, **data: Any) -> None:
        """A new version of the secret at `path`."""
        self._secrets.setdefault(path, []).append(_Version(data))

    def delete(self, path: str) -> None:
        """Delete the newest version, so that it could be undeleted."""
        self._secrets[path][-1].deleted = True

    def destroy(self, path: str) -> None:
        """Delete the newest version for good."""
        self._secrets[path][-1].destroyed = True

    def forget(self, path: str) -> None:
        """Delete all versions and the metadata of the secret."""
        del self._secrets[path]

    def replay(self, path: str, answer: Answer) -> None:
        """From now on respond to requests of this URL path with `answer`."""
        self.replays[path] = answer

    def hold(self) -> None:
        """Send no response until `let_go`; the next request sets `asked`."""
        self._gate, self.asked = anyio.Event(), anyio.Event()

    def let_go(self) -> None:
        self._gate.set()

    @property
    def paths(self) -> list[str]:
        """The URL paths of all requests."""
        return [request.path for request in self.requests]

    async def next(self, request: Request) -> Answer:
        """Record a request, and return the response to it."""
        self.requests.append(request)
        self.asked.set()
        await self._gate.wait()
        return self.replays.get(request.path) or self._answer(request)

    def _answer(self, request: Request) -> Answer:
        if self.sealed:
            return recorded.SEALED
        if self.standby:
            return recorded.STANDBY
        if self.limited:
            return recorded.LIMITED
        if request.headers.get("x-vault-token") not in self.tokens:
            return recorded.BAD_TOKEN
        if request.path == LOOK_UP:
            return recorded.TOKEN
        mount, _, path = request.path.removeprefix("/v1/").partition("/data/")
        if path in self.forbidden:
            return recorded.DENIED
        if mount not in self.mounts:
            return Recorded(404, {"errors": [f'no handler for route "{mount}/data/{path}". route entry not found.']})
        return self._read(path)

    def _read(self, path: str) -> Answer:
        versions = self._secrets.get(path)
        if not versions:
            return recorded.MISSING
        newest = versions[-1]
        gone = newest.deleted or newest.destroyed
        metadata = {
            "created_time": "2026-11-21T10:00:00.000000001Z",
            "custom_metadata": None,
            "deletion_time": "2026-11-21T11:00:00.000000001Z" if newest.deleted else "",
            "destroyed": newest.destroyed,
            "version": len(versions),
        }
        assert recorded.READ.body is not None
        data = {"data": None if gone else newest.data, "metadata": metadata}
        return Recorded(404 if gone else 200, recorded.READ.body | {"request_id": "1", "data": data})


@asynccontextmanager
async def fake_vault(
    directory: Path, authority: Authority, *, certificate: ServerFiles | None = None
) -> AsyncIterator[FakeVault]:
    """A running server on 127.0.0.1, with a certificate for it unless given another."""
    certificate = certificate or authority.issue(directory, hosts=("127.0.0.1",))

    async def serve(peer: Peer) -> None:
        await _converse(vault, peer)

    async with talking(serve, tls=tls_with(certificate)) as (port, _):
        vault = FakeVault(f"https://127.0.0.1:{port}", authority.write(directory / "ca.crt"))
        yield vault


async def _converse(vault: FakeVault, peer: Peer) -> None:
    """One request after another on a connection that is kept."""
    while True:
        method, path, headers, _ = parsed(await peer.request())
        match await vault.next(Request(method, path, headers)):
            case Recorded() as answer:
                location = (("Location", answer.location),) if answer.location else ()
                await peer.say(head(answer.status, *location, length=len(answer.raw)) + answer.raw)
            case Raw(status, body, more):
                await peer.say(head(status, *more, length=len(body)) + body)
            case Misbehaviour.SILENCE:
                await anyio.sleep_forever()
            case Misbehaviour.HALF:
                await peer.say(head(200, length=1000) + b'{"data":')
                await anyio.sleep_forever()
            case Misbehaviour.FLOOD:
                await peer.say(head(200, length=10**12))
                while True:
                    await peer.say(b" " * 65536)
            case Misbehaviour.HANG_UP:
                return
