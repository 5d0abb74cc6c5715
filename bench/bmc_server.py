"""Runs a fleet of BMCs in a separate process: `python -m bench.bmc_server BMCS DEAD DELAY MIXED DIRECTORY`.

`bench.bmc_fleet` starts this process. The process ends when its standard input ends, so it never outlives its parent.
Each BMC has its own address in 127.77.0.0/16 and a certificate with that address. Each BMC speaks TLS, requires basic
authentication for all paths except the service root, has one system and one manager, and takes DELAY seconds for each
response. Dead BMCs are spread evenly among the others; the kernel drops SYNs to them, as a firewall does. If MIXED is
1, the BMCs treat connections as the makes of `bench.bmc_makes` do; otherwise all keep connections. For each input on
standard input, the process prints a line of counts.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import functools
import itertools
import resource
import socket
import ssl
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any, cast

import anyio
import msgspec
from typing_extensions import override

from bench import bmc_makes
from bench.bmc_makes import Make
from farrier.sim.certificates import Authority

ROOT = "/redfish/v1/"
SYSTEMS = "/redfish/v1/Systems"
SYSTEM = "/redfish/v1/Systems/1"
MANAGER = "/redfish/v1/Managers/1"
HEALTH = "OK"
USERNAME = "farrier"
PASSWORD = "never-used-elsewhere"

_FIRST = IPv4Address("127.77.0.1")
# The number of addresses in one certificate. The additional bytes cost no measurable time in a handshake, whereas
# creating five thousand certificates would take long.
_SHARE_A_CERTIFICATE = 20
_BACKLOG = 64
_LONGEST_REQUEST = 16 * 1024
_NUMBER = "NUMBER"
_SERIAL = f"SN-{_NUMBER}"
_UUID = f"38b7a8c4-0000-11ec-9621-{_NUMBER}"
_RIGHT = f"Basic {base64.b64encode(f'{USERNAME}:{PASSWORD}'.encode()).decode()}"


class Counts(msgspec.Struct):
    """The counts of the BMCs since the last report."""

    connections: int = 0
    requests: dict[str, int] = msgspec.field(default_factory=dict)
    refused: int = 0
    asked: int = 0


class Ready(msgspec.Struct, frozen=True):
    """The message that is printed once, when all BMCs listen."""

    port: int


def host(number: int) -> str:
    """Return the address of a BMC. BMCs are counted from 0."""
    return str(_FIRST + number)


def serial(number: int) -> str:
    """Return the serial number of a BMC's system."""
    return _SERIAL.replace(_NUMBER, f"{number:012}")


def uuid(number: int) -> str:
    """Return the UUID of a BMC's system."""
    return _UUID.replace(_NUMBER, f"{number:012}")


def is_dead(number: int, *, bmcs: int, dead: int) -> bool:
    """Return whether this BMC is one of the `dead` BMCs, which are spread evenly among the others."""
    return number * dead // bmcs < (number + 1) * dead // bmcs


class _Fleet:
    """The data that all BMCs share: their pages, and the counts of requests."""

    def __init__(self) -> None:
        self._counts = Counts()
        self._asked: set[int] = set()
        self._pages = {
            path: msgspec.json.encode(page)
            for path, page in {
                ROOT: {"@odata.id": ROOT, "Systems": {"@odata.id": SYSTEMS}, "RedfishVersion": "1.17.0"},
                SYSTEMS: {"@odata.id": SYSTEMS, "Members": [{"@odata.id": SYSTEM}], "Members@odata.count": 1},
                MANAGER: {"@odata.id": MANAGER, "@odata.type": "#Manager.v1_18_0.Manager", "ManagerType": "BMC"},
            }.items()
        }

    def connected(self) -> None:
        self._counts.connections += 1

    def answer(self, number: int, path: str, authorization: str | None, headers: str) -> bytes:
        """Return the complete response of one BMC."""
        self._counts.requests[path] = self._counts.requests.get(path, 0) + 1
        if path != ROOT and authorization != _RIGHT:
            self._counts.refused += 1
            return _http("401 Unauthorized", b"{}", headers)
        if path == SYSTEM:
            self._asked.add(number)
            return _http("200 OK", _system(number), headers)
        page = self._pages.get(path)
        return _http("404 Not Found", b"{}", headers) if page is None else _http("200 OK", page, headers)

    def told(self) -> Counts:
        """Return the counts, and reset them."""
        counts, self._counts = self._counts, Counts()
        counts.asked = len(self._asked)
        self._asked.clear()
        return counts


def _resource() -> dict[str, Any]:
    """Return the Redfish resource of a system, which has some two kilobytes, as on real servers."""
    below = ("Bios", "Memory", "Processors", "Storage", "LogServices", "SecureBoot", "BootOptions", "SimpleStorage")
    return {
        "@odata.id": SYSTEM,
        "@odata.type": "#ComputerSystem.v1_20_0.ComputerSystem",
        "Id": "1",
        "Name": "System",
        "PowerState": "On",
        "SerialNumber": _SERIAL,
        "UUID": _UUID,
        "Manufacturer": "Example",
        "Model": "GPU-8",
        "Status": {"State": "Enabled", "Health": HEALTH, "HealthRollup": HEALTH},
        "Boot": {"BootOrder": [f"Boot{number:04}" for number in range(16)], "BootSourceOverrideEnabled": "Disabled"},
        "Links": {"ManagedBy": [{"@odata.id": MANAGER}], "Chassis": [{"@odata.id": "/redfish/v1/Chassis/1"}]},
        "Actions": {
            "#ComputerSystem.Reset": {
                "target": f"{SYSTEM}/Actions/ComputerSystem.Reset",
                "ResetType@Redfish.AllowableValues": ["On", "ForceOff", "GracefulShutdown", "ForceRestart"],
            }
        },
        **{name: {"@odata.id": f"{SYSTEM}/{name}"} for name in below},
        "Oem": {"Example": {f"Setting{number}": "of no concern to anybody" for number in range(20)}},
    }


_SYSTEM = msgspec.json.encode(_resource())


def _system(number: int) -> bytes:
    return _SYSTEM.replace(_NUMBER.encode(), b"%012d" % number)


def _http(status: str, body: bytes, headers: str) -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n{headers}\r\n"
    return head.encode() + body


class _Bmc:
    """One BMC: its number, its make, and how many connections are open."""

    def __init__(self, number: int, make: Make) -> None:
        self.number = number
        self.make = make
        self.open = 0


class _Conversation(asyncio.Protocol):
    """One connection to one BMC."""

    def __init__(self, fleet: _Fleet, bmc: _Bmc, delay: float) -> None:
        self._fleet = fleet
        self._delay = delay
        self._bmc = bmc
        self._heard = b""
        self._requests = 0
        self._idle: asyncio.TimerHandle | None = None
        self._transport: asyncio.WriteTransport | None = None

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are streams, but their types do not declare this.
        self._transport = cast(asyncio.WriteTransport, transport)
        self._fleet.connected()
        self._bmc.open += 1
        if self._bmc.open > self._bmc.make.most:
            self._transport.close()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._bmc.open -= 1
        if self._idle is not None:
            self._idle.cancel()

    @override
    def data_received(self, data: bytes) -> None:
        assert self._transport is not None, "it was connected"
        self._heard += data
        while b"\r\n\r\n" in self._heard:
            head, _, self._heard = self._heard.partition(b"\r\n\r\n")
            start, *lines = head.decode("latin-1").split("\r\n")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
            self._requests += 1
            make, path = self._bmc.make, start.split(" ")[1]
            if make.resets and self._requests > 1:
                self._transport.abort()
                return
            answer = self._fleet.answer(self._bmc.number, path, headers.get("authorization"), make.headers)
            if self._delay > 0:
                asyncio.get_running_loop().call_later(self._delay, self._transport.write, answer)
            else:
                self._transport.write(answer)
            if self._idle is not None:
                self._idle.cancel()
            self._idle = asyncio.get_running_loop().call_later(self._delay + make.idle, self._transport.close)
        if len(self._heard) > _LONGEST_REQUEST:
            self._transport.close()


def _listening(address: str, port: int, *, backlog: int) -> socket.socket:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((address, port))
    listener.listen(backlog)
    listener.setblocking(False)
    return listener


@contextmanager
def _black_hole(number: int, port: int) -> Iterator[None]:
    """Return an address that responds to no SYN. The kernel drops SYNs while the accept queue is full. The queue has
    length 0, so one connection fills it, and no connection is accepted."""
    with _listening(host(number), port, backlog=0), socket.create_connection((host(number), port)):
        yield


def _contexts(directory: Path, bmcs: int) -> Iterator[ssl.SSLContext]:
    """Yield the certificate and key of each BMC. Writes the authority's certificate to the directory."""
    authority = Authority("farrier benchmarks", now=datetime.now(UTC))
    authority.write(directory / "ca.crt")
    for first in range(0, bmcs, _SHARE_A_CERTIFICATE):
        numbers = range(first, min(first + _SHARE_A_CERTIFICATE, bmcs))
        files = authority.issue(directory, hosts=tuple(map(host, numbers)))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(files.certificate, files.key)
        yield from itertools.repeat(context, len(numbers))


async def serve(bmcs: int, dead: int, delay: float, *, mixed: bool, directory: Path) -> None:
    """Serve the fleet until standard input ends."""
    fleet, loop = _Fleet(), asyncio.get_running_loop()
    with _listening(host(0), 0, backlog=1) as probe:
        port: int = probe.getsockname()[1]
    async with contextlib.AsyncExitStack() as stack:
        for number, context in enumerate(_contexts(directory, bmcs)):
            if is_dead(number, bmcs=bmcs, dead=dead):
                stack.enter_context(_black_hole(number, port))
                continue
            listener = _listening(host(number), port, backlog=_BACKLOG)
            bmc = _Bmc(number, bmc_makes.of(number, mixed=mixed))
            await loop.create_server(functools.partial(_Conversation, fleet, bmc, delay), sock=listener, ssl=context)
        _say(Ready(port))
        async for _ in anyio.wrap_file(sys.stdin):
            _say(fleet.told())


def _say(what: msgspec.Struct) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(what) + b"\n")
    sys.stdout.buffer.flush()


def main(bmcs: str, dead: str, delay: str, mixed: str, directory: str) -> None:
    """Run the process."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    run = functools.partial(
        serve, int(bmcs), int(dead), float(delay), mixed=bool(int(mixed)), directory=Path(directory)
    )
    anyio.run(run, backend_options={"use_uvloop": True})


if __name__ == "__main__":
    main(*sys.argv[1:])
