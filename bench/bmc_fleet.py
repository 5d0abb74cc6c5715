"""Starts the BMCs of the benchmarks, and gives clients their addresses, credential, and counts of requests.

The fleet is a separate process (`bench.bmc_server`), because its handshakes cost as much CPU time as the measured
handshakes of the client. The fleet ends at the end of the block that started it, or when this process ends.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import anyio
import anyio.abc
import msgspec
from anyio.streams.buffered import BufferedByteReceiveStream

from bench.bmc_server import PASSWORD, USERNAME, Counts, Ready, host, is_dead
from farrier.config import BmcConfig, CredentialBinding, CredentialsConfig

# Five thousand listeners take some seconds. A fleet that is not ready after this time has failed.
_PATIENCE_SECONDS = 60
_LONGEST_LINE = 1 << 16
_LOOPBACK = "127.0.0.0/8"


class BmcFleet:
    """A running fleet of BMCs."""

    def __init__(self, directory: Path, *, bmcs: int, dead: int) -> None:
        self.directory = directory
        self._dead = [is_dead(number, bmcs=bmcs, dead=dead) for number in range(bmcs)]
        self._port = 0
        self._process: anyio.abc.Process | None = None
        self._lines: BufferedByteReceiveStream | None = None

    @property
    def addresses(self) -> Sequence[str]:
        """The addresses of the BMCs, in the form of a node's `bmc_address`."""
        return [f"https://{host(number)}:{self._port}" for number in range(len(self._dead))]

    @property
    def dead(self) -> frozenset[str]:
        """The addresses of the BMCs that do not respond."""
        return frozenset(address for address, dead in zip(self.addresses, self._dead, strict=True) if dead)

    @property
    def credential(self) -> str:
        """The reference to the credential of all BMCs. As at most sites, it is a file."""
        return f"file:{self.directory / 'credential.json'}"

    @property
    def environment(self) -> Mapping[str, str]:
        """The settings with which a daemon can reach and trusts the BMCs."""
        return {
            "FARRIER_BMC_CA_FILE": str(self.directory / "ca.crt"),
            "FARRIER_BMC_ALLOWED_NETWORKS": _LOOPBACK,
            "FARRIER_CREDENTIALS_FILE_ROOTS": str(self.directory),
            "FARRIER_CREDENTIALS_BINDINGS": msgspec.json.encode([self.binding]).decode(),
        }

    @property
    def config(self) -> BmcConfig:
        """The settings of a client in this process. A fleet on a busy machine accepts connections late."""
        return BmcConfig(
            ca_file=str(self.directory / "ca.crt"),
            allowed_networks=(_LOOPBACK,),
            connect_timeout=timedelta(seconds=10),
        )

    @property
    def binding(self) -> CredentialBinding:
        """The binding of the credential to these BMCs."""
        return CredentialBinding(references=(self.credential,), networks=(_LOOPBACK,))

    @property
    def places(self) -> CredentialsConfig:
        """The places from which the credential may be read."""
        return CredentialsConfig(file_roots=(str(self.directory),))

    async def counts(self) -> Counts:
        """Return the counts of the BMCs since the last call. Calls must not overlap."""
        assert self._process is not None and self._process.stdin is not None, "it was started with pipes"
        await self._process.stdin.send(b"\n")
        return msgspec.json.decode(await self._line(), type=Counts)

    async def start(self, process: anyio.abc.Process) -> None:
        """Wait until all BMCs listen. `bmc_fleet` calls this once."""
        assert process.stdout is not None, "it was started with pipes"
        self._process, self._lines = process, BufferedByteReceiveStream(process.stdout)
        with anyio.fail_after(_PATIENCE_SECONDS):
            self._port = msgspec.json.decode(await self._line(), type=Ready).port

    async def _line(self) -> bytes:
        assert self._lines is not None, "it was started"
        return await self._lines.receive_until(b"\n", _LONGEST_LINE)


def _prepared(directory: str) -> Path:
    """Return the directory, after writing the BMCs' credential to it."""
    path = Path(directory).resolve()
    credential = {"username": USERNAME, "password": PASSWORD}
    (path / "credential.json").write_bytes(msgspec.json.encode(credential))
    return path


@asynccontextmanager
async def bmc_fleet(bmcs: int, *, dead: int = 0, delay: float = 0.0, mixed: bool = False) -> AsyncIterator[BmcFleet]:
    """Run a fleet of BMCs until the end of the block. `dead` BMCs do not respond; the others respond after `delay`
    seconds. A mixed fleet treats connections as real makes do; otherwise, all BMCs keep connections."""
    with tempfile.TemporaryDirectory(prefix="farrier-bmcs-") as directory:
        fleet = BmcFleet(_prepared(directory), bmcs=bmcs, dead=dead)
        command = [
            sys.executable,
            "-m",
            "bench.bmc_server",
            str(bmcs),
            str(dead),
            str(delay),
            str(int(mixed)),
            directory,
        ]
        async with await anyio.open_process(command, stdin=subprocess.PIPE, stderr=None) as process:
            try:
                await fleet.start(process)
                yield fleet
            finally:
                process.terminate()
