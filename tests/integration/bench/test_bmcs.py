"""The BMCs of the benchmarks: how clients and daemons see healthy and dead ones, and that their processes end."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import anyio
import msgspec
import pytest

from bench import bmc_polls, bmcs, daemon
from bench.bmc_fleet import BmcFleet, bmc_fleet
from bench.bmc_server import MANAGER, ROOT, SYSTEM, SYSTEMS
from bench.ground import Ground, ground
from farrier.model.machine.bmc import BmcError, BmcFailure, PowerState
from farrier.services.bmc.access import BmcTimes
from farrier.services.bmc.client import open_bmc
from farrier.services.credentials.bindings import Bindings
from farrier.services.credentials.resolver import Credentials
from tests.architecture.sources import ROOT as REPOSITORY
from tests.support import pg
from tests.support.observed import Observed
from tests.support.process import until

# Benchmarks are tools for developers, and `make test` runs the tests of the product.
pytestmark = pytest.mark.full

_NOT_READ_SINCE = "SELECT count(*) FROM farrier.nodes WHERE (bmc ->> 'power_at')::timestamptz < $1"


@pytest.fixture
async def fleet() -> AsyncIterator[BmcFleet]:
    """Four BMCs, the last of them dead."""
    async with bmc_fleet(4, dead=1) as fleet:
        yield fleet


@pytest.fixture
async def clean(pg_server: pg.Server) -> AsyncIterator[Ground]:
    """A schema for a benchmark."""
    async with pg_server.copy(pg.EMPTY) as database, ground(database.dsn) as clean:
        yield clean


async def test_each_bmc_has_its_own_address_certificate_and_machine(fleet: BmcFleet) -> None:
    alive = [address for address in fleet.addresses if address not in fleet.dead]
    async with bmc_polls.client(fleet) as bmc:
        readings = [await bmc.verify(bmc_polls.target(fleet, address, known=False)) for address in alive]
    assert {reading.power for reading in readings} == {PowerState.ON}
    assert len({(reading.serial, reading.uuid) for reading in readings}) == 3


async def test_the_counts_of_the_bmcs_begin_anew_after_each_report(fleet: BmcFleet) -> None:
    async with bmc_polls.client(fleet) as bmc:
        await bmc.verify(bmc_polls.target(fleet, fleet.addresses[0], known=False))
        first = await fleet.counts()
        await bmc.read(bmc_polls.target(fleet, fleet.addresses[0]))
        await bmc.read(bmc_polls.target(fleet, fleet.addresses[1]))
        second = await fleet.counts()
    assert first.requests == {ROOT: 1, SYSTEMS: 1, SYSTEM: 1, MANAGER: 1}
    # The first BMC keeps the connection of its verification.
    assert (second.requests, second.connections, second.asked, second.refused) == ({SYSTEM: 2}, 1, 2, 0)


async def test_a_dead_bmc_answers_no_syn(fleet: BmcFleet) -> None:
    """As behind a firewall, a client gets neither a refusal nor a connection."""
    (dead,) = fleet.dead
    brief = msgspec.structs.replace(fleet.config, connect_timeout=timedelta(milliseconds=200))
    bindings = Bindings((fleet.binding,))
    store = Credentials(fleet.places)
    async with open_bmc(
        brief, BmcTimes(deadline=timedelta(seconds=30)), credentials=store, bindings=bindings, observer=Observed("bmc")
    ) as bmc:
        with pytest.raises(BmcError, match="no connection in time") as raised:
            await bmc.verify(bmc_polls.target(fleet, dead))
    assert raised.value.failure is BmcFailure.TIMEOUT


async def test_a_wrong_password_is_refused(fleet: BmcFleet) -> None:
    await anyio.Path(fleet.directory / "credential.json").write_text('{"username": "farrier", "password": "guessed"}')
    async with bmc_polls.client(fleet) as bmc:
        with pytest.raises(BmcError) as raised:
            await bmc.read(bmc_polls.target(fleet, fleet.addresses[0]))
    assert raised.value.failure is BmcFailure.AUTH
    assert (await fleet.counts()).refused == 1


async def test_the_bmcs_end_with_the_process_that_started_them(tmp_path: Path) -> None:
    """The BMCs end when the pipe to the benchmark is closed, so also when the benchmark was killed."""
    command = [sys.executable, "-m", "bench.bmc_server", "2", "1", "0", "1", str(tmp_path)]
    done = await anyio.run_process(command, cwd=REPOSITORY, stderr=subprocess.PIPE, check=False, input=b"")
    assert (done.returncode, done.stderr) == (0, b"")


async def test_a_daemon_verifies_the_healthy_bmcs_and_reports_the_dead_ones(clean: Ground, fleet: BmcFleet) -> None:
    verified = await bmcs.verify(clean, fleet)
    assert verified.healthy > 0 and verified.dead > 0
    rows = await clean.pool.fetch("SELECT bmc_address, management, bmc ->> 'failure' AS failure FROM farrier.nodes")
    assert {row["bmc_address"]: (row["management"], row["failure"]) for row in rows} == {
        address: ("enroll", "timeout") if address in fleet.dead else ("manageable", None) for address in fleet.addresses
    }


async def test_a_daemon_reads_the_power_of_nodes_at_rest(clean: Ground) -> None:
    """The daemon sends each BMC one request, and the nodes record the responses."""

    async def polled() -> bool:
        return not await clean.pool.fetchval(_NOT_READ_SINCE, began)

    async with bmc_fleet(3) as fleet:
        await bmc_polls.connect(clean, fleet)
        began = await clean.pool.fetchval("SELECT farrier.now()")
        settings = {
            **fleet.environment,
            "FARRIER_NODE_POWER_SYNC_INTERVAL": "1s",
            "FARRIER_NODE_CONFIRMED_EVERY": "1s",
        }
        async with daemon.running(clean.dsn, settings) as process:
            await until(polled)
            assert process.cpu_seconds() > 0
        counts = await fleet.counts()
    assert counts.asked == 3 and set(counts.requests) == {SYSTEM} and counts.refused == 0
