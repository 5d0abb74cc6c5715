"""BMCs for tests: a small Redfish server that misbehaves on demand, and a client that calls it.

The server speaks HTTP over TLS, requires basic authentication or a session for all but the service root, and records
its requests: by `methods` and `failed_logins` a test sees requests that no BMC should receive. At first the server has
all pages of a sound BMC, and its power follows its resets; a test replaces single pages.
"""

from __future__ import annotations

import base64
import ssl
from collections import ChainMap, Counter
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeAlias, assert_never

import anyio
import anyio.abc
import msgspec
import pytest

from farrier.clock import MonotonicClock
from farrier.config import BmcConfig, BmcTrustConfig, CredentialBinding, CredentialsConfig
from farrier.model.machine.bmc import BmcError, BmcReading, BmcTarget
from farrier.protocols import Clock, CredentialStore
from farrier.services.bmc.access import BmcTimes
from farrier.services.bmc.client import RedfishBmc, open_bmc
from farrier.services.bmc.transport import Lookup, look_up
from farrier.services.credentials.bindings import Bindings
from farrier.services.credentials.resolver import Credentials
from farrier.sim.certificates import Authority, ServerFiles
from tests.support.observed import Observed
from tests.support.sockets import Peer, head, parsed, talking, tls_with

LOOPBACK = ("127.0.0.0/8",)
# FARRIER_CREDENTIALS_BINDINGS of a daemon that uses the reference `CREDENTIAL`.
BMC_ON_LOOPBACK = '[{"references": ["env:FARRIER_SECRET_BMC"], "networks": ["127.0.0.0/8"]}]'
ANYWHERE = Bindings((CredentialBinding(references=("env:*",), networks=("0.0.0.0/0", "::/0")),))

ROOT = "/redfish/v1/"
SYSTEMS = "/redfish/v1/Systems"
SYSTEM = "/redfish/v1/Systems/Self"
MANAGERS = "/redfish/v1/Managers"
MANAGER = "/redfish/v1/Managers/BMC"
INTERFACES = f"{SYSTEM}/EthernetInterfaces"
RESET = f"{SYSTEM}/Actions/ComputerSystem.Reset"
SESSIONS = "/redfish/v1/SessionService/Sessions"

CREDENTIAL = "env:FARRIER_SECRET_BMC"
USERNAME = "admin"
PASSWORD = "s3kr1t pass"


class Page(msgspec.Struct, frozen=True):
    """A response given as status, raw body and additional headers."""

    status: int = 200
    body: bytes = b"{}"
    headers: tuple[tuple[str, str], ...] = ()


class Silence(msgspec.Struct, frozen=True):
    """The server receives the request and never responds."""


class Drip(msgspec.Struct, frozen=True):
    """A response that is sent byte by byte, without end."""


class Flood(msgspec.Struct, frozen=True):
    """A response without end, sent as fast as the client reads it. If it is compressed, few bytes are sent."""


class Late(msgspec.Struct, frozen=True):
    """A sound response that is sent after this many seconds."""

    seconds: float
    resource: dict[str, Any]


class HangUp(msgspec.Struct, frozen=True):
    """The connection ends in the middle of the body."""

    status: int = 200


class NoReply(msgspec.Struct, frozen=True):
    """The connection ends without a response."""


class Garbage(msgspec.Struct, frozen=True):
    """A response that is not HTTP."""

    content: bytes


Misbehaviour: TypeAlias = Silence | Drip | Flood | HangUp | NoReply | Garbage
Answer: TypeAlias = dict[str, Any] | Page | Late | Misbehaviour


class Request(msgspec.Struct, frozen=True):
    """A request that the server received."""

    method: str
    path: str
    authorization: str | None
    token: str | None = None
    body: bytes = b""


def system(**changes: Any) -> dict[str, Any]:
    """A sound system resource, with changes; a value of `...` removes the field."""
    resource = {
        "@odata.id": SYSTEM,
        "@odata.type": "#ComputerSystem.v1_20_0.ComputerSystem",
        "Id": "Self",
        "PowerState": "On",
        "SerialNumber": "SN-0001",
        "UUID": "38B7A8C4-0001-11EC-9621-0242AC130002",
        "Manufacturer": "ACME",
        "Model": "GPU-8",
        "Status": {"State": "Enabled", "Health": "OK", "HealthRollup": "Warning"},
        "Bios": {"@odata.id": f"{SYSTEM}/Bios"},
        "EthernetInterfaces": {"@odata.id": INTERFACES},
        "Links": {"ManagedBy": [{"@odata.id": MANAGER}]},
        "Actions": {"#ComputerSystem.Reset": {"target": RESET}},
    } | changes
    return {field: value for field, value in resource.items() if value is not ...}


def members(*paths: str) -> dict[str, Any]:
    """A collection of the resources at `paths`."""
    return {"Members": [{"@odata.id": path} for path in paths], "Members@odata.count": len(paths)}


def sound() -> dict[str, list[Answer]]:
    """All pages of a sound BMC, by path."""
    manager = {"@odata.id": MANAGER, "@odata.type": "#Manager.v1_18_0.Manager", "ManagerType": "BMC"}
    links = {"Links": {"Sessions": {"@odata.id": SESSIONS}}}
    return {
        ROOT: [{"Systems": {"@odata.id": SYSTEMS}, "Managers": {"@odata.id": MANAGERS}, **links}],
        SYSTEMS: [members(SYSTEM)],
        SYSTEM: [system()],
        MANAGERS: [members(MANAGER)],
        MANAGER: [manager],
        INTERFACES: [members(f"{INTERFACES}/1", f"{INTERFACES}/2")],
        f"{INTERFACES}/1": [{"PermanentMACAddress": "AA-BB-CC-00-00-02", "MACAddress": "02:00:00:00:00:01"}],
        f"{INTERFACES}/2": [{"MACAddress": "aa:bb:cc:00:00:01"}],
    }


class FakeBmc:
    """The server's pages, its account, sessions and power, and the requests that it received."""

    def __init__(self, url: str, ca_file: Path) -> None:
        self.url = url
        self.ca_file = ca_file
        self.requests: list[Request] = []
        self.connected = anyio.Event()  # a client has proven to speak TLS
        self.keeps = False  # connections stay open after a response
        self.resets_reuse = False  # the second request on a connection gets a reset
        self.headers: tuple[tuple[str, str], ...] = ()  # of each response
        self.connections = 0
        self._idle: dict[anyio.CancelScope, anyio.Event] = {}  # open connections, and whether they have ended
        self.password = PASSWORD
        self.failed_logins = 0
        self.locks_after: int | None = None  # the account refuses every login after this many failed logins
        self.sessions: set[str] = set()  # the tokens of open sessions
        self.session_limit = 4
        self.no_free_session = Page(503, b'{"error": {"code": "Base.1.8.SessionLimitExceeded"}}')
        self.tells_time = True  # the resource of a session has the time of its creation
        self.session_ids: list[str] = []  # ids of the next sessions; if empty, the token is the id
        self.places: dict[str, tuple[str, dict[str, Any]]] = {}  # sessions by id: the token and the resource
        self.on_login: Callable[[], object] = lambda: None  # called when a session is open, before the response
        self.refusal: Answer = Page(401, b'{"error": "credential refused"}')  # of a request without a valid login
        self.session_answer: Answer | None = None  # the response to a good login, instead of a session
        self.anyway: dict[str, Page] = {}  # responses to requests of any method without a login, by path
        self.answer_basic: Page | None = None  # the response to every request with basic authentication
        self.resets: list[str] = []
        self.reset_answer: Answer = Page(204)
        self.reset_refusals: list[Answer] = []  # responses to the next resets, which then have no effect
        self.power_after: tuple[str | None, ...] | None = None  # power after a reset; None: as the reset requests
        self._opened = 0
        self._pages = sound()

    @property
    def open_connections(self) -> int:
        return len(self._idle)

    async def hang_up(self) -> None:
        """End all open connections, as after a time without a request."""
        idle = dict(self._idle)
        for scope, ended in idle.items():
            scope.cancel()
            await ended.wait()

    async def until_open(self, connections: int) -> None:
        """Return once so many connections are open."""
        with anyio.fail_after(20):
            while self.open_connections != connections:
                await anyio.lowlevel.checkpoint()

    async def serve(self, peer: Peer) -> None:
        """Respond on one connection, until the client or `hang_up` ends it."""
        self.connected.set()
        self.connections += 1
        ended = anyio.Event()
        with anyio.CancelScope() as scope:
            self._idle[scope] = ended
            try:
                await _respond(self, peer)
                while self.keeps:
                    if self.resets_reuse:
                        await peer.request()
                        await peer.reset()
                        return
                    await _respond(self, peer)
            finally:
                del self._idle[scope]
                ended.set()

    def answer(self, path: str, *answers: Answer) -> None:
        """Respond to requests of a path with each of these in turn, and then always with the last response."""
        self._pages[path] = list(answers)

    @property
    def logins(self) -> int:
        """How many requests carried a credential."""
        return sum(request.authorization is not None or request.path == SESSIONS for request in self.requests)

    @property
    def methods(self) -> Counter[str]:
        """How many requests there were of each method."""
        return Counter(request.method for request in self.requests)

    def next(self, request: Request) -> Answer:
        """Record a request, and return the response to it."""
        self.requests.append(request)
        if request.path in self.anyway:
            return self.anyway[request.path]
        if request.authorization is not None and self.answer_basic is not None:
            return self.answer_basic
        if request.method == "POST" and request.path == SESSIONS:
            return self._open_session(request)
        if request.path != ROOT and not self._knows(request):
            return self.refusal
        if request.path.startswith(f"{SESSIONS}/"):
            return self._session(request)
        if request.method == "POST" and request.path == RESET:
            return self._reset(request)
        answers = self._pages.get(request.path)
        if answers is None:
            return Page(404, b'{"error": "no such resource"}')
        return answers.pop(0) if len(answers) > 1 else answers[0]

    def _knows(self, request: Request) -> bool:
        if request.token is not None:
            return request.token in self.sessions
        right = f"Basic {base64.b64encode(f'{USERNAME}:{self.password}'.encode()).decode()}"
        return request.authorization is not None and self._lets_in(request.authorization == right)

    def _lets_in(self, right: bool) -> bool:
        """Whether the account accepts a login; counts a failed login."""
        if right and (self.locks_after is None or self.failed_logins < self.locks_after):
            return True
        self.failed_logins += 1
        return False

    def _open_session(self, request: Request) -> Answer:
        wanted = {"UserName": USERNAME, "Password": self.password}
        if not self._lets_in(msgspec.json.decode(request.body) == wanted):
            return Page(401, b'{"error": "credential refused"}')
        if self.session_answer is not None:
            return self.session_answer
        if len(self.sessions) >= self.session_limit:
            return self.no_free_session
        self._opened += 1
        token = f"t0ken-{self._opened}"
        name = self.session_ids.pop(0) if self.session_ids else token
        self.sessions.add(token)
        said = {"UserName": USERNAME} | ({"CreatedTime": f"T{self._opened}"} if self.tells_time else {})
        self.places[name] = token, said
        self.on_login()
        # BMCs behind address translation report another host than the client has dialled.
        place = f"https://192.0.2.1{SESSIONS}/{name}"
        return Page(201, msgspec.json.encode(said), (("X-Auth-Token", token), ("Location", place)))

    def _session(self, request: Request) -> Answer:
        name = request.path.rpartition("/")[2]
        token, said = self.places.get(name, ("", {}))
        if token not in self.sessions:
            return Page(404)
        if request.method == "DELETE":
            self.sessions.discard(token)
            return Page(204, b"")
        return said

    def _reset(self, request: Request) -> Answer:
        kind = msgspec.json.decode(request.body)["ResetType"]
        self.resets.append(kind)
        if self.reset_refusals:
            return self.reset_refusals.pop(0)
        powers = self.power_after if self.power_after is not None else _POWERS[kind]
        if powers:
            self.answer(SYSTEM, *(system(PowerState=power) for power in powers))
        return self.reset_answer


_POWERS: dict[str, tuple[str | None, ...]] = {
    "On": ("PoweringOn", "On"),
    "ForceOff": ("PoweringOff", "Off"),
    "GracefulShutdown": ("On", "PoweringOff", "Off"),
    "ForceRestart": ("Reset", "On"),
    "PowerCycle": ("Off", None, "On"),
}


@asynccontextmanager
async def fake_bmc(
    directory: Path,
    authority: Authority,
    *,
    certificate: ServerFiles | None = None,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[FakeBmc]:
    """A running server on a free port of 127.0.0.1. By default its certificate is valid for this address."""
    tls = tls or tls_with(certificate or authority.issue(directory, hosts=("127.0.0.1",)))

    async def serve(peer: Peer) -> None:
        await bmc.serve(peer)

    async with talking(serve, tls=tls) as (port, _):
        bmc = FakeBmc(f"https://127.0.0.1:{port}", authority.write(directory / "ca.crt"))
        yield bmc


async def _respond(bmc: FakeBmc, peer: Peer) -> None:
    method, path, headers, body = parsed(await peer.request())
    answer = bmc.next(Request(method, path, headers.get("authorization"), headers.get("x-auth-token"), body))
    match answer:
        case Page() as page:
            await peer.say(_said(bmc, page.status, *page.headers, length=len(page.body)) + page.body)
        case Late(seconds, resource):
            await anyio.sleep(seconds)
            await _send(bmc, peer, resource)
        case dict():
            await _send(bmc, peer, answer)
        case _:
            await _misbehave(peer, answer)


async def _misbehave(peer: Peer, answer: Misbehaviour) -> None:
    match answer:
        case NoReply():
            pass
        case Garbage(content):
            await peer.say(content)
        case HangUp(status):
            await peer.say(_head(status, length=100) + b'{"PowerState":')
        case Silence():
            await anyio.sleep_forever()
        case Drip():
            await peer.say(_head(200, length=1_000_000))
            while True:
                await peer.say(b" ")
                await anyio.sleep(0.01)
        case Flood():
            await peer.say(_head(200, length=10**12))
            while True:
                await peer.say(b" " * 65536)
        case _ as never:
            assert_never(never)


async def _send(bmc: FakeBmc, peer: Peer, resource: dict[str, Any]) -> None:
    body = msgspec.json.encode(resource)
    await peer.say(_said(bmc, 200, length=len(body)) + body)


def _said(bmc: FakeBmc, status: int, *headers: tuple[str, str], length: int) -> bytes:
    usual = bmc.headers if bmc.keeps else (("Connection", "close"),)
    return head(status, *usual, *headers, length=length)


def _head(status: int, *headers: tuple[str, str], length: int) -> bytes:
    return head(status, ("Connection", "close"), *headers, length=length)


@asynccontextmanager
async def connect(  # noqa: PLR0913 - one parameter is one thing that a test replaces
    ca_file: Path,
    *,
    credential: str = f"{USERNAME}:{PASSWORD}",
    observed: Observed | None = None,
    clock: Clock | None = None,
    bindings: Bindings = ANYWHERE,
    lookup: Lookup = look_up,
    store: CredentialStore | None = None,
    more: MutableMapping[str, str] | None = None,
    trust: BmcTrustConfig | None = None,
    **settings: Any,
) -> AsyncIterator[RedfishBmc]:
    """A client that trusts `ca_file`, may dial loopback and has the credential `CREDENTIAL`; `more` are environment
    variables with more credentials, which a test may change while the client is open. `settings` are fields of
    `BmcConfig` and `BmcTimes`."""
    usual: dict[str, Any] = {
        "allowed_networks": LOOPBACK,
        "connect_timeout": timedelta(seconds=10),
        "deadline": timedelta(seconds=30),
        "power_reread_pause": timedelta(milliseconds=1),
        "session_directory": str(ca_file.parent / "sessions"),
        **msgspec.structs.asdict(trust or BmcTrustConfig(ca_file=str(ca_file))),
        **settings,
    }
    times = {name: usual.pop(name) for name in BmcTimes.__struct_fields__ if name in usual}
    environ = more if more is not None else {}
    credentials = Credentials(CredentialsConfig(), environ=ChainMap(environ, {"FARRIER_SECRET_BMC": credential}))
    async with open_bmc(
        BmcConfig(**usual),
        BmcTimes(clock=clock or MonotonicClock(), **times),
        credentials=store or credentials,
        lookup=lookup,
        bindings=bindings,
        observer=observed or Observed("bmc"),
    ) as client:
        yield client


def at(
    bmc: FakeBmc, system_path: str | None = SYSTEM, *, credential: str = CREDENTIAL, only_reads: bool = False
) -> BmcTarget:
    return BmcTarget(address=bmc.url, credential=credential, system_path=system_path, only_reads=only_reads)


Call: TypeAlias = Callable[[RedfishBmc, BmcTarget], Awaitable[BmcReading]]


async def failure(client: RedfishBmc, target: BmcTarget, call: Call = RedfishBmc.read) -> BmcError:
    """The error of a call, which shows no password."""
    with pytest.raises(BmcError) as raised:
        await call(client, target)
    error = raised.value
    assert PASSWORD not in f"{error} {error!r}"
    assert error.__cause__ is None
    assert error.__context__ is None, "a traceback would show the frames that hold the credential"
    return error
