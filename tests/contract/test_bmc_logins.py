"""No BMC gets more than three failed logins in five minutes, whichever calls are made, and however often."""

from __future__ import annotations

from datetime import timedelta
from itertools import cycle
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from farrier.model.intents.params import PowerRequest
from farrier.model.machine.bmc import BmcFailure, BmcReading, BmcTarget, PowerState
from farrier.services.bmc.client import RedfishBmc
from farrier.sim.certificates import Authority
from tests.support.bmc import (
    CREDENTIAL,
    PASSWORD,
    SYSTEM,
    USERNAME,
    FakeBmc,
    Page,
    Silence,
    at,
    connect,
    failure,
    fake_bmc,
    system,
)
from tests.support.clock import HandClock
from tests.support.sockets import free_port

WRONG = f"{USERNAME}:wr0ng"
RIGHT = f"{USERNAME}:{PASSWORD}"
MINUTES = 60.0


async def switch(client: RedfishBmc, target: BmcTarget) -> BmcReading:
    return await client.set_power(target, PowerRequest.RESET)


async def test_a_password_with_a_stray_character_costs_no_login(bmc: FakeBmc) -> None:
    async with connect(bmc.ca_file, credential=f"{USERNAME}:{PASSWORD}\n") as client:
        error = await failure(client, at(bmc))
    assert (error.failure, error.dialled, bmc.logins) == (BmcFailure.INCOMPLETE, False, 0)
    assert "the password ends with white space" in error.detail


@pytest.mark.parametrize("auth", ["basic", "session"])
async def test_the_fourth_login_is_not_sent_regardless_of_its_purpose(bmc: FakeBmc, auth: str) -> None:
    async with connect(bmc.ca_file, credential=WRONG, clock=HandClock(), auth=auth) as client:
        for call in (RedfishBmc.read, switch, RedfishBmc.verify):
            assert (await failure(client, at(bmc), call)).dialled
        asked = len(bmc.requests)
        for call in (RedfishBmc.verify, RedfishBmc.read, switch):
            error = await failure(client, at(bmc), call)
            assert error.failure is BmcFailure.AUTH
            assert not error.dialled
            assert not error.sent
            assert error.retry_after == timedelta(minutes=5)
            assert "refused 3 logins within 5 min" in error.detail
            assert error.credential_version is None, "a secret that is not sent is not read"
    assert len(bmc.requests) == asked
    assert bmc.failed_logins == bmc.logins == 3
    assert bmc.resets == []


async def test_the_window_of_failed_logins_slides(bmc: FakeBmc) -> None:
    """Any four successive logins take five minutes or more, and waiting clients get a Retry-After."""
    clock, seen, texts = HandClock(), [], set()
    async with connect(bmc.ca_file, credential=WRONG, clock=clock) as client:
        for _ in range(20 * 4):
            before = bmc.failed_logins
            error = await failure(client, at(bmc))
            assert error.dialled == (bmc.failed_logins > before)
            if error.dialled:
                seen.append(clock.now)
            else:
                texts.add(error.detail)
                assert error.retry_after is not None
                assert seen[-3] + 5 * MINUTES - clock.now <= error.retry_after.total_seconds() <= 5 * MINUTES
            clock.now += 0.25 * MINUTES
    assert len(seen) == 3 * 4
    assert len(texts) == 1, "the text is stored, and must not change with the time to wait"
    assert all(fourth - first >= 5 * MINUTES for first, fourth in zip(seen, seen[3:], strict=False))


async def test_all_nodes_behind_one_bmc_share_its_limit_in_every_spelling_of_the_address(bmc: FakeBmc) -> None:
    host = bmc.url.removeprefix("https://")
    spelled = cycle([bmc.url, host, f"HTTPS://{host}/", f" {host} "])
    paths = cycle([SYSTEM, "/redfish/v1/Systems/Other", None])
    more = {f"FARRIER_SECRET_{number}": f"{USERNAME}:wr0ng-{number}" for number in range(8)}
    async with connect(bmc.ca_file, clock=HandClock(), more=more) as client:
        for variable in more:
            target = BmcTarget(address=next(spelled), credential=f"env:{variable}", system_path=next(paths))
            assert (await failure(client, target, RedfishBmc.verify)).failure is BmcFailure.AUTH
    assert bmc.failed_logins == 3


async def test_concurrent_calls_share_the_limit_of_a_bmc(bmc: FakeBmc) -> None:
    async with (
        connect(bmc.ca_file, credential=WRONG, clock=HandClock()) as client,
        anyio.create_task_group() as tasks,
    ):
        for _ in range(12):
            tasks.start_soon(failure, client, at(bmc))
    assert bmc.failed_logins == 3


async def test_another_bmc_has_a_separate_limit(bmc: FakeBmc, authority: Authority, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    async with fake_bmc(tmp_path / "other", authority) as other:
        bmc.password = "changed"
        async with connect(bmc.ca_file, clock=HandClock()) as client:
            for _ in range(4):
                await failure(client, at(bmc))
            assert (await client.verify(at(other))).power is PowerState.ON


async def test_a_successful_login_in_between_does_not_reset_the_count(bmc: FakeBmc) -> None:
    """Firmware that counts failures within a window does not reset the count after a successful login."""
    secrets = {"FARRIER_SECRET_X": WRONG}
    target = at(bmc, credential="env:FARRIER_SECRET_X")
    async with connect(bmc.ca_file, clock=HandClock(), more=secrets) as client:
        for _ in range(2):
            await failure(client, target)
        secrets["FARRIER_SECRET_X"] = RIGHT
        await client.verify(target)
        secrets["FARRIER_SECRET_X"] = WRONG
        for _ in range(4):
            await failure(client, target)
    assert bmc.failed_logins == 3


async def test_a_credential_that_was_good_and_is_refused_counts(bmc: FakeBmc) -> None:
    async with connect(bmc.ca_file, clock=HandClock()) as client:
        await client.verify(at(bmc))
        bmc.password = "changed on the BMC"
        for _ in range(6):
            await failure(client, at(bmc))
    assert bmc.failed_logins == 3


async def test_a_locked_account_gets_no_more_than_three_logins(bmc: FakeBmc) -> None:
    """A locked account refuses even the right password, with the same response as for a wrong one."""
    bmc.locks_after = 0
    clock = HandClock()
    async with connect(bmc.ca_file, clock=clock) as client:
        for _ in range(6):
            assert (await failure(client, at(bmc))).failure is BmcFailure.AUTH
        assert bmc.failed_logins == 3
        clock.now += 5 * MINUTES
        bmc.locks_after = None
        assert (await client.verify(at(bmc))).power is PowerState.ON


async def cut_short(client: RedfishBmc, bmc: FakeBmc, *, after: int) -> None:
    """Start a read that gets no response, and cancel it once the BMC has received `after` requests."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(client.read, at(bmc))
        while len(bmc.requests) < after:
            await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()


async def test_a_login_that_was_cut_short_counts_because_its_result_is_unknown(bmc: FakeBmc) -> None:
    """If it did not count, a client that interrupts a node often enough could have a wrong password tried for ever."""
    bmc.answer(SYSTEM, Silence())
    async with connect(bmc.ca_file, clock=HandClock()) as client:
        for number in range(3):
            await cut_short(client, bmc, after=number + 1)
        error = await failure(client, at(bmc))
    assert error.failure is BmcFailure.TIMEOUT, "it was not refused"
    assert not error.dialled
    assert error.retry_after == timedelta(minutes=5)
    assert "did not respond to 3 logins" in error.detail
    assert bmc.logins == 3


async def test_unanswered_reads_with_a_proven_credential_do_not_count(bmc: FakeBmc) -> None:
    async with connect(bmc.ca_file, clock=HandClock()) as client:
        await client.read(at(bmc))
        bmc.answer(SYSTEM, Silence())
        for number in range(5):
            await cut_short(client, bmc, after=number + 2)
        bmc.answer(SYSTEM, system())
        assert (await client.read(at(bmc))).power is PowerState.ON


async def test_failures_without_a_login_do_not_count(bmc: FakeBmc) -> None:
    bmc.answer(SYSTEM, Page(503))
    with free_port() as port:
        nobody = BmcTarget(address=f"127.0.0.1:{port}", credential=CREDENTIAL, system_path=SYSTEM)
        async with connect(bmc.ca_file, clock=HandClock()) as client:
            for _ in range(5):
                assert (await failure(client, nobody)).dialled
                assert (await failure(client, at(bmc))).dialled
