"""The MaasClient against a region, or a proxy in front of it, that responds badly: a clear class, and no harm.

Bodies and statuses are scripted responses in memory; certificates, redirects and connections that end are real ones
over a socket. The behaviour with a sound region is in `test_maas_client`.
"""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import anyio
import anyio.abc
import anyio.lowlevel
import httpx
import pytest
from structlog.testing import capture_logs

from farrier.errors import ConfigError, CredentialError
from farrier.model.maas import changes
from farrier.model.maas.changes import LookUp
from farrier.model.maas.reading import MaasError, MaasFailure, MaasStatus, Machine
from farrier.services.maas.service import ATTEMPTS, LARGEST_BODY_BYTES
from farrier.sim.certificates import Authority
from farrier.sim.maas import ADMIN, Broken, Fault, Region
from tests.support.answers import PAGE, Endless, Scripted, http, said, serving, text
from tests.support.maas import NEW, POWER, RELEASE, World, world_of, world_with
from tests.support.sockets import tls_with

SOON = timedelta(seconds=0.3)
RECORD = {"system_id": "abc123", "hostname": "gpu001", "status": 6, "owner": None}
MACHINE = Machine(system_id="abc123", hostname="gpu001", status=6, read_at=1000.0)


async def failure_of_read(world: World) -> MaasError:
    with pytest.raises(MaasError) as caught:
        await world.client.machine("abc123")
    return caught.value


async def failure_of_change(world: World) -> MaasError:
    with pytest.raises(MaasError) as caught:
        await world.client.do(MACHINE, RELEASE)
    return caught.value


# --- bodies


@pytest.mark.parametrize(
    "body",
    [
        PAGE,
        json.dumps(RECORD).encode()[:-9],
        b"",
        b"null",
        b"[]",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"status": 6}',
        json.dumps({**RECORD, "status": "Deployed"}).encode(),
        json.dumps({**RECORD, "system_id": "zzz999"}).encode(),
    ],
    ids=["page", "cut", "empty", "null", "list", "bytes", "deep", "no id", "no number", "another machine"],
)
async def test_a_body_that_is_no_machine_is_a_protocol_failure(body: bytes) -> None:
    async with world_of(Scripted(httpx.Response(200, content=body))) as world:
        error = await failure_of_read(world)
    assert error.failure is MaasFailure.PROTOCOL
    assert world.observed.requests == [("machine", "protocol")]


@pytest.mark.parametrize("body", [PAGE, b'{"system_id": "abc1'], ids=["page", "cut"])
async def test_a_change_with_an_unreadable_response_may_have_been_made(body: bytes) -> None:
    answer = httpx.Response(200, content=body, headers={"Content-Type": "application/json"})
    async with world_of(Scripted(answer)) as world:
        error = await failure_of_change(world)
    assert (error.failure, error.ambiguous) == (MaasFailure.PROTOCOL, True)
    assert len(world.observed.requests) == 1


async def test_an_unknown_status_is_kept_and_is_no_failure() -> None:
    record = {**RECORD, "status": 4711, "status_name": "Levitating", "more": [1], "netboot": None}
    async with world_of(Scripted(said(record))) as world:
        machine = await world.client.machine("abc123")
    assert (machine.status, machine.status_name, machine.state) == (4711, "Levitating", MaasStatus.UNKNOWN)


async def test_a_machine_listed_twice_is_returned_once_unless_its_data_differ() -> None:
    async with world_of(Scripted(said([RECORD, RECORD]))) as world:
        assert [one.system_id for one in await world.client.machines(LookUp.HOSTNAME, ["gpu001"])] == ["abc123"]
    async with world_of(Scripted(said([RECORD, {**RECORD, "status": 4}]))) as world:
        with pytest.raises(MaasError, match="twice") as refused:
            await world.client.machines(LookUp.HOSTNAME, ["gpu001"])
    assert refused.value.failure is MaasFailure.PROTOCOL


async def test_two_machines_with_one_name_are_both_returned() -> None:
    async with world_of(Scripted(said([RECORD, {**RECORD, "system_id": "def456"}]))) as world:
        found = await world.client.machines(LookUp.HOSTNAME, ["gpu001"])
    assert [one.system_id for one in found] == ["abc123", "def456"]


async def test_a_machine_that_was_not_requested_is_a_protocol_failure() -> None:
    async with world_of(Scripted(said([RECORD]))) as world:
        with pytest.raises(MaasError, match="not requested"):
            await world.client.machines(LookUp.ID, ["def456"])


async def test_a_dripping_response_ends_with_the_timeout_of_the_request() -> None:
    for change in (False, True):
        drip = Endless(b" ")
        wire = Scripted(httpx.Response(200, stream=drip))
        async with world_of(wire, read_timeout=SOON, change_timeout=SOON) as world:
            error = await (failure_of_change(world) if change else failure_of_read(world))
        assert (error.failure, error.ambiguous) == (MaasFailure.TIMEOUT, change)
        assert drip.closed
        assert len(wire.requests) == 1


# --- requests that are retried, and requests that are not


@pytest.mark.parametrize(
    ("trouble", "failure", "pauses"),
    [
        (text(503, retry_after="7"), MaasFailure.BUSY, [7.0, 7.0]),
        (text(409, PAGE, retry_after="5"), MaasFailure.BUSY, [5.0, 5.0]),
        (text(503, PAGE), MaasFailure.BUSY, [1.0, 2.0]),
        (text(502, PAGE), MaasFailure.UPSTREAM, [1.0, 2.0]),
        (text(504), MaasFailure.UPSTREAM, [1.0, 2.0]),
        (httpx.ConnectError("refused"), MaasFailure.UNREACHABLE, [1.0, 2.0]),
        (httpx.RemoteProtocolError("gone"), MaasFailure.UNREACHABLE, [1.0, 2.0]),
    ],
    ids=["503 later", "409 later", "503 page", "502", "504", "refused", "gone"],
)
async def test_a_read_is_tried_again_a_few_times_and_a_change_never(
    trouble: httpx.Response | Exception, failure: MaasFailure, pauses: list[float]
) -> None:
    async with world_of(Scripted(trouble)) as world:
        assert (await failure_of_read(world)).failure is failure
        assert world.pauses == pauses
        assert world.observed.requests == [("machine", failure)] * ATTEMPTS
    async with world_of(Scripted(trouble)) as world:
        assert (await failure_of_change(world)).failure is failure
        assert world.pauses == []
        assert world.observed.requests == [("release", failure)]


async def test_a_read_that_succeeds_in_the_end_is_a_success() -> None:
    wire = Scripted(text(503, retry_after="2"), httpx.ReadError("reset"), said(RECORD))
    async with world_of(wire) as world:
        assert (await world.client.machine("abc123")).system_id == "abc123"
    assert world.pauses == [2.0, 2.0]
    assert len({request.headers["authorization"] for request in wire.requests}) == 3


async def test_a_retry_after_of_minutes_is_left_to_the_caller() -> None:
    async with world_of(Scripted(text(503, retry_after="120"))) as world:
        error = await failure_of_read(world)
    assert error.retry_after == timedelta(minutes=2)
    assert world.pauses == []


@pytest.mark.parametrize("answer", [text(401), text(403), text(404, b"No Machine matches the given query."), text(400)])
async def test_a_permanent_failure_is_not_tried_again(answer: httpx.Response) -> None:
    wire = Scripted(answer)
    async with world_of(wire) as world:
        await failure_of_read(world)
    assert len(wire.requests) == 1


async def test_a_pause_holds_no_slot() -> None:
    """While some calls pause because the region is busy, other calls still get slots."""
    held = anyio.Event()

    async with world_of(Scripted(text(502))) as world, anyio.create_task_group() as callers:
        waiting = 0

        async def pause(_: float) -> None:
            nonlocal waiting
            waiting += 1
            await held.wait()

        world.pause_with = pause
        for _ in range(8):
            callers.start_soon(failure_of_read, world)
        await anyio.wait_all_tasks_blocked()
        assert waiting == 8
        held.set()


async def test_an_invalid_url_is_a_protocol_failure_and_nothing_was_sent() -> None:
    async with world_of(None, url="http://maas.test:port/MAAS") as world:
        error = await failure_of_read(world)
    assert (error.failure, error.ambiguous) == (MaasFailure.PROTOCOL, False)
    assert "URL" in error.detail


# --- secrets


async def test_no_error_log_or_representation_contains_a_secret() -> None:
    """The region's response quotes the request, as it does when a BMC refuses."""
    secret = ADMIN.key.split(":")[2]
    body = f"Failed: root:{POWER.password} for {ADMIN.key} signed %26{secret}".encode()
    with capture_logs() as logs:
        async with world_of(Scripted(text(500, body))) as world:
            with pytest.raises(MaasError) as created:
                await world.client.create(NEW)
            with pytest.raises(MaasError) as updated:
                await world.client.do(MACHINE, changes.UpdateMachine(power=POWER))
    for error in (created.value, updated.value):
        shown = f"{error} {error!r} {error.__cause__!r} {error.__dict__} {logs}"
        assert POWER.password not in shown
        assert secret not in shown
        assert "***" in error.detail
        assert error.ambiguous


async def test_each_failure_names_the_site_and_its_url_without_the_password() -> None:
    refused, oversized, page = text(401), text(200, b"[" * (LARGEST_BODY_BYTES + 1)), httpx.Response(200, content=PAGE)
    for answer in (refused, oversized, page, httpx.ConnectError("refused"), TimeoutError()):
        async with world_of(Scripted(answer), url="http://ops:s3kr1t@maas.test/MAAS") as world:
            error = await failure_of_change(world)
        assert error.detail.startswith("site north (http://ops:***@maas.test/MAAS): "), error.detail
    for key in ("no key", CredentialError("env:KEY", "the variable is not set")):
        async with world_of(Scripted()) as world:
            world.key = key
            assert (await failure_of_read(world)).detail.startswith("site north (http://maas.test/MAAS): the API key ")


async def test_a_cancelled_call_is_counted_as_cancelled_and_not_as_a_failure() -> None:
    region = Region()
    region.faults.add(Fault(broken=Broken.HANG, times=None))
    async with world_with(region) as world, anyio.create_task_group() as callers:
        callers.start_soon(world.client.version)
        await anyio.wait_all_tasks_blocked()
        callers.cancel_scope.cancel()
    assert world.observed.requests == [("version", "cancelled")]


# --- connections


@pytest.mark.parametrize("change", [False, True])
async def test_a_redirect_is_not_followed_so_the_key_goes_nowhere_else(*, change: bool) -> None:
    async with serving(b"") as (elsewhere, stolen):
        answer = http("307 Temporary Redirect", f"Location: http://127.0.0.1:{elsewhere}/MAAS/api/2.0/")
        async with serving(answer) as (port, heads), world_of(None, url=f"http://127.0.0.1:{port}/MAAS") as world:
            error = await (failure_of_change(world) if change else failure_of_read(world))
    assert (error.failure, error.ambiguous) == (MaasFailure.PROTOCOL, False)
    assert "redirect" in error.detail
    assert len(heads) == 1 and not stolen


async def test_only_a_certificate_of_the_given_authority_is_trusted(tmp_path: Path, authority: Authority) -> None:
    context = tls_with(authority.issue(tmp_path, hosts=("127.0.0.1",)))
    body = json.dumps(RECORD).encode()
    answer = http("200 OK", "Content-Type: application/json", body=body)
    async with serving(answer, tls=context) as (port, heads):
        url = f"https://127.0.0.1:{port}/MAAS"
        async with world_of(None, url=url, ca_file=str(authority.write(tmp_path / "ca.pem"))) as world:
            assert (await world.client.machine("abc123")).system_id == "abc123"
        async with world_of(None, url=url) as world:
            error = await failure_of_change(world)
            assert (error.failure, error.ambiguous) == (MaasFailure.TLS, False)
    assert len(heads) == 1


async def test_a_file_without_an_authority_is_an_error_of_the_settings(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("nothing")
    with pytest.raises(ConfigError):
        async with world_of(None, ca_file=str(tmp_path / "ca.pem")):
            pass


async def test_a_region_without_tls_is_logged_once() -> None:
    with capture_logs() as logs:
        async with world_of(Scripted(said(RECORD))):
            pass
    assert [entry["event"] for entry in logs] == ["maas.not_encrypted"]
