"""The requests of a poll and of an identity check, Retry-After of BMCs, and the sharing of slots among BMCs."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest

from farrier.model.machine.bmc import BmcError, BmcFailure, BmcTarget, PowerState
from farrier.sim.certificates import Authority
from tests.support.bmc import (
    CREDENTIAL,
    INTERFACES,
    MANAGER,
    SYSTEM,
    Answer,
    FakeBmc,
    Garbage,
    HangUp,
    NoReply,
    Page,
    Silence,
    at,
    connect,
    failure,
    fake_bmc,
    system,
)
from tests.support.observed import Observed
from tests.support.sockets import ENOUGH

SOON = timedelta(milliseconds=300)
HOUR = timedelta(hours=1)
AT_ONCE = timedelta(0)
DATE = "Wed, 01 Jan 2025 00:00:00 GMT"


async def failure_of(bmc: FakeBmc, **settings: Any) -> BmcError:
    async with connect(bmc.ca_file, **settings) as client:
        return await failure(client, at(bmc))


async def test_a_read_is_one_get_with_power_health_and_identity(bmc: FakeBmc) -> None:
    observed = Observed("bmc")
    async with connect(bmc.ca_file, observed=observed) as client:
        reading = await client.read(at(bmc))
    assert (reading.power, reading.health, reading.serial) == (PowerState.ON, "Warning", "SN-0001")
    assert reading.uuid == "38b7a8c4-0001-11ec-9621-0242ac130002"
    assert reading.macs == ()
    assert observed.requests == [("system", "ok")]
    assert bmc.methods == {"GET": 1}


@pytest.mark.parametrize("power", [None, "Paused", "Reset", "Unknown", 7, ["On"], ...])
async def test_a_read_returns_a_transitional_power_state_without_a_reread(bmc: FakeBmc, power: object) -> None:
    bmc.answer(SYSTEM, system(PowerState=power))
    async with connect(bmc.ca_file) as client:
        reading = await client.read(at(bmc))
    assert (reading.power, len(bmc.requests)) == (PowerState.UNKNOWN, 1)


async def test_a_read_needs_no_action_that_switches_power(bmc: FakeBmc) -> None:
    bmc.answer(SYSTEM, system(Actions=...))
    async with connect(bmc.ca_file) as client:
        assert (await client.read(at(bmc))).power is PowerState.ON


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param(Page(401), "auth", id="401"),
        pytest.param(Page(409), "unreachable", id="409"),
        pytest.param(Page(200, b'{"error": {"code": "Base.1.0.GeneralError"}}'), "protocol", id="error-with-200"),
        pytest.param(HangUp(), "protocol", id="hang-up"),
        pytest.param(NoReply(), "unreachable", id="no-reply"),
        pytest.param(Garbage(b"SSH-2.0-OpenSSH_9.6\r\n"), "protocol", id="not-http"),
        pytest.param(Silence(), "timeout", id="silence"),
    ],
)
async def test_a_read_that_fails_has_a_class_after_one_request(bmc: FakeBmc, answer: Answer, expected: str) -> None:
    bmc.answer(SYSTEM, answer)
    assert (await failure_of(bmc, deadline=ENOUGH)).failure == expected
    assert len(bmc.requests) == 1


async def test_interfaces_of_a_known_system_are_read_on_request(bmc: FakeBmc) -> None:
    """Each interface is read once, and by GETs only: an adoption may read a machine that is in use."""
    async with connect(bmc.ca_file) as client:
        reading = await client.verify(at(bmc), macs=True)
    assert reading.macs == ("aa:bb:cc:00:00:01", "aa:bb:cc:00:00:02")
    asked = [request.path for request in bmc.requests]
    assert sorted(asked) == sorted([SYSTEM, INTERFACES, f"{INTERFACES}/1", f"{INTERFACES}/2", MANAGER])
    assert set(bmc.methods) == {"GET"}


@pytest.mark.parametrize(
    ("headers", "stay"),
    [
        ({"Retry-After": "120"}, timedelta(minutes=2)),
        ({"Retry-After": "86400"}, timedelta(minutes=15)),
        ({"Retry-After": "9" * 400}, None),
        ({"Retry-After": "Wed, 01 Jan 2025 00:00:30 GMT", "Date": DATE}, timedelta(seconds=30)),
        ({"Retry-After": "Wed, 01 Jan 2025 00:00:30 GMT"}, None),
        ({"Retry-After": "Tue, 31 Dec 2024 00:00:00 GMT", "Date": DATE}, None),
        ({"Retry-After": "0"}, None),
        ({"Retry-After": "-5"}, None),
        ({"Retry-After": "soon"}, None),
        ({}, None),
    ],
)
async def test_retry_after_of_a_bmc_is_passed_on_within_bounds(
    bmc: FakeBmc, headers: dict[str, str], stay: timedelta | None
) -> None:
    bmc.answer(SYSTEM, Page(503, headers=tuple(headers.items())))
    error = await failure_of(bmc)
    assert (error.failure, error.retry_after) == (BmcFailure.UNREACHABLE, stay)


@contextmanager
def black_hole() -> Iterator[BmcTarget]:
    """A port whose backlog is full, so that packets to it are dropped."""
    with ExitStack() as sockets:
        listener = sockets.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):
            filler = sockets.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        yield BmcTarget(address=f"127.0.0.1:{listener.getsockname()[1]}", credential=CREDENTIAL, system_path=SYSTEM)


async def test_a_bmc_whose_packets_vanish_is_known_long_before_the_deadline(bmc: FakeBmc) -> None:
    with black_hole() as target:
        async with connect(bmc.ca_file, connect_timeout=SOON, deadline=HOUR) as client:
            error = await failure(client, target)
    assert error.failure is BmcFailure.TIMEOUT
    assert "no connection in time" in error.detail
    assert error.dialled


async def test_dead_bmcs_do_not_keep_the_slots_from_live_ones(
    bmc: FakeBmc, authority: Authority, tmp_path: Path
) -> None:
    """With two slots and two BMCs that do not respond for an hour, a third BMC is still read."""
    (tmp_path / "silent").mkdir()
    with black_hole() as vanished:
        async with (
            fake_bmc(tmp_path / "silent", authority) as silent,
            connect(bmc.ca_file, concurrency=2, patience=AT_ONCE, deadline=HOUR, connect_timeout=HOUR) as client,
            anyio.create_task_group() as tasks,
        ):
            silent.answer(SYSTEM, Silence())
            for target in (at(silent), vanished):
                tasks.start_soon(client.read, target)
            with anyio.fail_after(20):
                for _ in range(5):
                    assert (await client.read(at(bmc))).power is PowerState.ON
            tasks.cancel_scope.cancel()
