"""Simulates BMCs with sushy-emulator, an independent Redfish server of OpenStack. Each BMC is a system of the emulator,
which uses its fake driver.

One process serves any number of systems over TLS with basic authentication on free ports of 127.0.0.1, each of which is
a BMC for farrier. The emulator has its own CA, credential and state directory. The emulator ends with the context, and
also if this process ends in any way.
"""

from __future__ import annotations

import os
import socket
import ssl
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from itertools import cycle
from pathlib import Path

import anyio
import anyio.abc
import bcrypt
import httpx
import msgspec
from typing_extensions import override

from farrier import errors
from farrier.sim.certificates import Authority, ServerFiles

HOST = "127.0.0.1"
USERNAME = "admin"
PASSWORD = "simulated"  # protects only a simulation on loopback

# Importing Flask and its dependencies takes one to three seconds on a busy machine.
START_TIMEOUT = timedelta(seconds=60)
STOP_TIMEOUT = timedelta(seconds=5)
# Each system has a BMC of its own, unless there are more of them. Systems that share a BMC take turns to log in, and
# three interrupted logins keep all of them waiting for minutes. Each BMC is a thread of the emulator.
MOST_BMCS = 64
POLL = timedelta(milliseconds=50)

# The emulator's configuration is Python code. The code ends the emulator when stdin closes, because then this process
# has ended. The code also silences werkzeug, which would log a line for each request.
_CONFIGURATION = """\
import logging, os, ssl, threading, __main__
from werkzeug.serving import make_server

def serve(ports, certificate, key):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    for port in ports:
        server = make_server("127.0.0.1", port, __main__.app, threaded=True, ssl_context=context)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 60}, daemon=True).start()

def leave_with_parent():
    os.read(0, 1)
    os._exit(0)

threading.Thread(target=leave_with_parent, daemon=True).start()
logging.getLogger("werkzeug").setLevel(logging.ERROR)
SUSHY_EMULATOR_FAKE_DRIVER = True
"""
PROMPT = "import random; random.randint = min\n"
"""A configuration with which a change of power takes a second. Otherwise the emulator draws a random duration of one to
eleven seconds."""


class SimulatedSystem(msgspec.Struct, frozen=True, kw_only=True):
    """A system of the emulator, which farrier sees as one host."""

    uuid: str
    name: str
    mac: str
    path: str


class SimulatedBmc(msgspec.Struct, frozen=True, kw_only=True):
    """A running emulator. Each of its BMCs serves all systems; `base_url` is the URL of the first, and `addresses` has
    the BMC address of each system, by its UUID. `credential_file` is the file for a `file:` reference."""

    base_url: str
    addresses: Mapping[str, str]
    ca_file: Path
    username: str
    password: str
    credential_file: Path
    systems: tuple[SimulatedSystem, ...]
    process: int

    @override
    def __repr__(self) -> str:
        return f"SimulatedBmc(base_url={self.base_url!r}, systems={len(self.systems)})"


class SimulatorFailed(errors.ServiceError):
    """The emulator did not start. The error text contains the end of the emulator's output."""

    label = "simulator"


def fake_systems(count: int, *, first: int = 1) -> tuple[SimulatedSystem, ...]:
    """Return `count` systems with the numbers from `first` on. A number is always the same system."""
    return tuple(_system(number) for number in range(first, first + count))


def _system(number: int) -> SimulatedSystem:
    identity = str(uuid.uuid5(uuid.NAMESPACE_DNS, f"system-{number}.sim.farrier.invalid"))
    mac = ":".join(f"{byte:02x}" for byte in (0x52, 0x54, 0, *number.to_bytes(3, "big")))
    return SimulatedSystem(uuid=identity, name=f"sim-{number}", mac=mac, path=f"/redfish/v1/Systems/{identity}")


@asynccontextmanager
async def simulated_bmc(
    directory: Path,
    systems: Sequence[SimulatedSystem],
    *,
    power: str = "On",
    configuration: str = "",
    authority: Authority | None = None,
    certificate: ServerFiles | None = None,
) -> AsyncIterator[SimulatedBmc]:
    """Run an emulator of `systems` that keeps its files in `directory`. All systems begin with the power state `power`.
    The directory also contains the power states, so a restart does not change them. `configuration` is Python code that
    the emulator runs at its start, such as `PROMPT`. `certificate` replaces the valid certificate of `authority`.
    Raises `SimulatorFailed`.
    """
    authority = authority or Authority("farrier simulation", now=datetime.now(UTC))
    served = _write_certificates(directory, authority, certificate)
    ports = _free_ports(min(len(systems), MOST_BMCS))
    file = _write_files(directory, systems, certificate=served, port=ports[0], power=power)
    more = f"serve({ports[1:]}, SUSHY_EMULATOR_SSL_CERT, SUSHY_EMULATOR_SSL_KEY)\n"
    file.write_text(file.read_text() + more + configuration)
    async with await anyio.open_file(directory / "emulator.log", "wb") as log:
        process = await anyio.open_process(
            [sys.executable, "-m", "sushy_tools.emulator.main", "--config", str(file)],
            stdin=subprocess.PIPE,
            stdout=log.wrapped,
            stderr=subprocess.STDOUT,
            cwd=directory,
            env={"PATH": os.environ.get("PATH", os.defpath), "PYTHONWARNINGS": "ignore"},
            # Ctrl-C in the terminal stops farrier first, and the BMCs afterwards.
            start_new_session=True,
        )
    try:
        bmc = SimulatedBmc(
            base_url=f"https://{HOST}:{ports[0]}",
            addresses={
                system.uuid: f"https://{HOST}:{port}{system.path}" for system, port in zip(systems, cycle(ports))
            },
            ca_file=directory / "ca.crt",
            username=USERNAME,
            password=PASSWORD,
            credential_file=directory / "credential.json",
            systems=tuple(systems),
            process=process.pid,
        )
        if not await _becomes_ready(bmc, process, verified=certificate is None):
            state = "does not answer" if process.returncode is None else f"ended with {process.returncode}"
            printed = (directory / "emulator.log").read_text(errors="replace")[-2000:] or "nothing"
            detail = f"it {state} and printed: {printed}"
            raise SimulatorFailed(service="sushy-emulator", operation="start", detail=detail)
        yield bmc
    finally:
        with anyio.CancelScope(shield=True):
            await _stop(process)


def _free_ports(count: int) -> list[int]:
    """Return so many different ports."""
    with ExitStack() as opened:
        probes = [opened.enter_context(socket.create_server((HOST, 0))) for _ in range(count)]
        return [probe.getsockname()[1] for probe in probes]


def _write_certificates(directory: Path, authority: Authority, certificate: ServerFiles | None) -> ServerFiles:
    directory.mkdir(parents=True, exist_ok=True)
    authority.write(directory / "ca.crt")
    return certificate or authority.issue(directory, hosts=(HOST, "localhost"))


def _write_files(
    directory: Path, systems: Sequence[SimulatedSystem], *, certificate: ServerFiles, port: int, power: str
) -> Path:
    """Write the files of the emulator and its clients. Returns the emulator's configuration file."""
    state = directory / "state"
    state.mkdir(exist_ok=True)
    # Four rounds are the minimum; more would be slow, because the emulator hashes the password for each request.
    hashed = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()
    _write_private(directory / "htpasswd", f"{USERNAME}:{hashed}\n".encode())
    _write_private(directory / "credential.json", msgspec.json.encode({"username": USERNAME, "password": PASSWORD}))
    settings = {
        "SUSHY_EMULATOR_LISTEN_IP": HOST,
        "SUSHY_EMULATOR_LISTEN_PORT": port,
        "SUSHY_EMULATOR_SSL_CERT": str(certificate.certificate),
        "SUSHY_EMULATOR_SSL_KEY": str(certificate.key),
        "SUSHY_EMULATOR_AUTH_FILE": str(directory / "htpasswd"),
        "SUSHY_EMULATOR_STATE_DIR": str(state),
        "SUSHY_EMULATOR_FAKE_SYSTEMS": [
            {
                "uuid": system.uuid,
                "name": system.name,
                "power_state": power,
                "external_notifier": False,
                "nics": [{"mac": system.mac, "ip": "192.0.2.1"}],
            }
            for system in systems
        ],
    }
    configuration = directory / "emulator.conf.py"
    lines = [f"{name} = {value!r}\n" for name, value in settings.items()]
    configuration.write_text(_CONFIGURATION + "".join(lines))
    return configuration


def _write_private(path: Path, content: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(content)


async def _becomes_ready(bmc: SimulatedBmc, process: anyio.abc.Process, *, verified: bool) -> bool:
    """Wait for a response over TLS. A connection without a handshake proves nothing and blocks the emulator, which
    makes handshakes in its accept loop."""
    context: ssl.SSLContext | bool = ssl.create_default_context(cafile=bmc.ca_file) if verified else False
    with anyio.move_on_after(START_TIMEOUT.total_seconds()):
        async with httpx.AsyncClient(verify=context, trust_env=False) as client:
            while process.returncode is None:
                try:
                    if (await client.get(f"{bmc.base_url}/redfish/v1/")).is_success:
                        return True
                except httpx.TransportError:
                    pass  # not listening yet
                await anyio.sleep(POLL.total_seconds())
    return False


async def _stop(process: anyio.abc.Process) -> None:
    if process.returncode is None:
        process.terminate()
        with anyio.move_on_after(STOP_TIMEOUT.total_seconds()):
            await process.wait()
    if process.returncode is None:
        process.kill()
    await process.aclose()
