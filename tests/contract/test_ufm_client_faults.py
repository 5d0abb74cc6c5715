"""The UFM client against a UFM, or a proxy in front of it, that responds badly: a clear class, and no harm.

Bodies and statuses are scripted responses in memory. Connections, certificates and redirects are those of the HTTP
client that all services share; `test_maas_client_faults` tests them.
"""

from __future__ import annotations

import json
from datetime import timedelta

import anyio
import httpx
import pytest

from farrier.errors import CredentialError
from farrier.model.credential import Credential
from farrier.model.partition.ufm import (
    Add,
    Create,
    DeleteKey,
    Membership,
    PartitionChange,
    PartitionPort,
    RemovePorts,
    SetPorts,
    SetQos,
    UfmError,
    UfmFailure,
)
from farrier.services.ufm.service import ATTEMPTS, pass_of
from farrier.sim.ufm import Broken, Fault, Manager, UfmTransport
from tests.support.answers import PAGE, Scripted, text
from tests.support.loop import PATIENCE
from tests.support.ufm import GUIDS, OneCredential, World, failing, wanted, world_of, world_with

SOON = timedelta(seconds=0.05)
NEVER = timedelta(days=1)
SECRETS = ("123456", "YWRtaW46MTIzNDU2", "a-token-of-ufm")
PKEYS = {"0x12": {"partition": "a", "ip_over_ib": True, "guids": [{"guid": GUIDS[0], "membership": "full"}]}}
CHANGES: list[tuple[str, PartitionChange]] = [
    ("create", Create(wanted(0x12))),
    ("set_qos", SetQos(wanted(0x12))),
    ("add", Add(wanted(0x12), GUIDS, Membership.FULL)),
    ("set_ports", SetPorts(wanted(0x12), {GUIDS[0]: PartitionPort()})),
    ("remove", RemovePorts(wanted(0x12), GUIDS[:1])),
    ("delete", DeleteKey(wanted(0x12))),
]
each_change = pytest.mark.parametrize(("operation", "change"), CHANGES, ids=[name for name, _ in CHANGES])


async def failure_of_read(world: World) -> UfmError:
    with failing() as caught:
        await world.client.read(0x12)
    return caught[0]


# --- bodies


@pytest.mark.parametrize(
    "body",
    [
        PAGE,
        json.dumps(PKEYS).encode()[:-9],
        b"",
        b"null",
        b"[]",
        b"\xff\xfe",
        b"[" * 100_000,
        json.dumps({"twelve": PKEYS["0x12"]}).encode(),
    ],
    ids=["page", "cut", "empty", "null", "list", "bytes", "deep", "no number"],
)
async def test_a_body_that_is_no_list_of_partitions_is_a_protocol_failure(body: bytes) -> None:
    async with world_of(Scripted(httpx.Response(200, content=body))) as world:
        error = await failure_of_read(world)
    assert error.failure is UfmFailure.PROTOCOL
    assert world.observed.requests == [("list_ports", "protocol")]


@pytest.mark.parametrize(
    "odd",
    [
        {"0x12": {"guids": [{"guid": "xyz"}]}},
        {"0x12": {"guids": [{"guid": GUIDS[0], "membership": "both"}]}},
        {"0x12": {"partition": "a"}, "0x0012": {"partition": "b"}},
        {"0x12": {"guids": [{"guid": GUIDS[0]}, {"guid": GUIDS[0], "membership": "limited"}]}},
        {"0x12": {"qos_conf": {"mtu_limit": "4K", "rate_limit": 2.5, "service_level": 0}}},
        {"0x12": [[[]]]},
    ],
    ids=["no guid", "another membership", "key twice", "port twice", "another unit", "no object"],
)
async def test_odd_data_of_one_partition_affect_only_calls_for_that_partition(odd: dict[str, object]) -> None:
    body = json.dumps({**odd, "0x13": {"partition": "mine"}}).encode()
    async with world_of(Scripted(httpx.Response(200, content=body))) as world:
        assert (await failure_of_read(world)).failure is UfmFailure.PROTOCOL
        mine = await world.client.read(0x13)
        assert mine is not None and mine.name == "mine"
    assert len(world.observed.requests) == 2, "a reading serves later calls, too"


@pytest.mark.matrix(strength=1)
@each_change
@pytest.mark.parametrize("body", [PAGE, b'{"job'], ids=["page", "cut"])
async def test_a_change_with_an_unreadable_response_may_have_been_made(
    operation: str, change: PartitionChange, body: bytes
) -> None:
    answer = httpx.Response(200, content=body, headers={"Content-Type": "application/json"})
    async with world_of(Scripted(answer)) as world:
        with failing() as caught:
            await world.client.do(change)
    assert (caught[0].failure, caught[0].ambiguous) == (UfmFailure.PROTOCOL, True)
    assert world.observed.requests == [(operation, "protocol")]


@pytest.mark.matrix(strength=1)
@each_change
@pytest.mark.parametrize("body", [b"", b"{}", b'{"id": 17}', b"done"], ids=["nothing", "{}", "a job", "text"])
async def test_a_change_counts_as_accepted_regardless_of_other_fields_of_its_body(
    operation: str, change: PartitionChange, body: bytes
) -> None:
    async with world_of(Scripted(httpx.Response(202, content=body))) as world:
        await world.client.do(change)
    assert world.observed.requests == [(operation, "ok")]


# --- statuses


@pytest.mark.parametrize(
    ("answer", "failure"),
    [
        (text(400, b"bad pkey"), UfmFailure.INVALID),
        (text(422, b"bad pkey"), UfmFailure.INVALID),
        (text(401), UfmFailure.AUTH),
        (text(403, b"no"), UfmFailure.FORBIDDEN),
        (text(404, b"no such GUID"), UfmFailure.ABSENT),
        (text(409, b"busy with it"), UfmFailure.CONFLICT),
        (text(429), UfmFailure.BUSY),
        (text(503), UfmFailure.BUSY),
        (text(500, b"Traceback"), UfmFailure.UPSTREAM),
        (httpx.Response(502, content=PAGE), UfmFailure.UPSTREAM),
        (httpx.Response(404, content=PAGE), UfmFailure.PROTOCOL),
        (httpx.Response(400, content=PAGE), UfmFailure.PROTOCOL),
        (httpx.Response(302, headers={"Location": "http://elsewhere.test/"}), UfmFailure.PROTOCOL),
        (text(418), UfmFailure.PROTOCOL),
    ],
    ids=lambda value: str(value.status_code) if isinstance(value, httpx.Response) else "",
)
async def test_every_status_of_a_change_has_a_class_and_no_change_is_sent_again(
    answer: httpx.Response, failure: UfmFailure
) -> None:
    async with world_of(Scripted(answer)) as world:
        with failing() as caught:
            await world.client.do(Create(wanted()))
    assert caught[0].failure is failure
    assert caught[0].ambiguous is (answer.status_code >= 500)
    assert caught[0].is_refusal is (failure in (UfmFailure.INVALID, UfmFailure.ABSENT, UfmFailure.CONFLICT))
    assert (len(world.observed.requests), world.pauses) == (1, []), "a change is sent once"


async def test_a_read_with_a_transient_failure_is_repeated() -> None:
    manager = Manager()
    manager.faults.add(Fault(op="list", status=503, times=1))
    async with world_with(manager) as world:
        await world.client.read(1)
    assert world.observed.requests == [("list_ports", "busy"), ("list_ports", "ok"), ("list_qos", "ok")]
    assert world.pauses == [1.0]


@pytest.mark.parametrize("status", [400, 409, 422])
async def test_a_refused_read_is_a_protocol_failure(status: int) -> None:
    async with world_of(Scripted(text(status))) as world:
        assert (await failure_of_read(world)).failure is UfmFailure.PROTOCOL
        with failing() as caught:
            await world.client.read_anew(0x12)
    assert caught[0].failure is UfmFailure.PROTOCOL


async def test_a_404_of_single_key_and_list_is_a_protocol_failure() -> None:
    async with world_of(Scripted(text(404, b"404 page not found"))) as world:
        with failing() as caught:
            await world.client.read_anew(0x12)
    assert caught[0].failure is UfmFailure.PROTOCOL and "404 page not found" in caught[0].detail


@pytest.mark.parametrize(
    "fault",
    [
        Fault(op="pkey", status=404, body=b"404 page not found\n", content_type="text/plain; charset=utf-8"),
        Fault(op="pkey", status=404, body=b'{"message": "no Route matched"}', content_type="application/json"),
        Fault(op="pkey", body=b"{}", content_type="application/json"),
    ],
    ids=["text", "json", "nothing"],
)
async def test_a_key_is_absent_only_when_the_list_of_all_lacks_it_too(fault: Fault) -> None:
    manager = Manager()
    async with world_with(manager) as world:
        await world.client.do(Create(wanted(0x12)))
        manager.faults.add(fault)
        found = await world.client.read_anew(0x12)
        assert found is not None and found.name == "api_pkey_0x12"
        del manager.partitions[0x12]
        assert await world.client.read_anew(0x12) is None


async def test_a_failing_ufm_is_not_called_for_a_moment_and_callers_get_the_same_error() -> None:
    manager = Manager()
    manager.faults.add(Fault(op="list", status=403, times=1))
    async with world_with(manager) as world:
        first = await failure_of_read(world)
        second = await failure_of_read(world)
        assert (second.failure, second.detail) == (first.failure, first.detail)
        assert len(manager.requests) == 1
        world.clock.advance(timedelta(seconds=5))
        assert await world.client.read(1) is None


@pytest.mark.parametrize(("status", "requests"), [(401, 1), (500, 2 * ATTEMPTS)])
async def test_only_a_failure_of_the_whole_ufm_stops_calls_for_other_keys(status: int, requests: int) -> None:
    async with world_of(Scripted(text(status))) as world:
        for number in (1, 2):
            with failing():
                await world.client.read_anew(number)
    assert len(world.observed.requests) == requests


# --- connections


@each_change
async def test_a_change_whose_response_is_lost_may_have_been_made(operation: str, change: PartitionChange) -> None:
    manager = Manager()
    manager.faults.add(Fault(method=None, path="*/resources/pkeys*", broken=Broken.DROP))
    async with world_with(manager) as world:
        with failing() as caught:
            await world.client.do(change)
    assert (caught[0].failure, caught[0].ambiguous) == (UfmFailure.UNREACHABLE, True)
    assert world.observed.requests == [(operation, "unreachable")]


async def test_a_change_whose_response_is_lost_is_seen_by_the_next_read() -> None:
    manager = Manager()
    manager.faults.add(Fault(op="create", broken=Broken.DROP))
    async with world_with(manager) as world:
        assert await world.client.read(1) is None
        with failing():
            await world.client.do(Create(wanted(1)))
        assert await world.client.read(1) is not None


async def test_a_ufm_that_hangs_in_a_change_is_a_timeout_after_the_limit_of_changes() -> None:
    manager = Manager()
    manager.faults.add(Fault(op="create", broken=Broken.HANG))
    async with world_with(manager, change_timeout=SOON, read_timeout=NEVER) as world:
        with anyio.fail_after(PATIENCE), failing() as caught:
            await world.client.do(Create(wanted()))
    assert (caught[0].failure, caught[0].ambiguous) == (UfmFailure.TIMEOUT, True)


async def test_a_ufm_that_hangs_in_a_read_is_a_timeout_after_the_limit_of_reads() -> None:
    manager = Manager()
    manager.faults.add(Fault(broken=Broken.HANG, times=None))
    async with world_with(manager, read_timeout=SOON, change_timeout=NEVER) as world:
        with anyio.fail_after(PATIENCE):
            error = await failure_of_read(world)
    assert (error.failure, error.ambiguous) == (UfmFailure.TIMEOUT, False)


# --- secrets


@pytest.mark.parametrize("token", ["", "env:TOKEN"])
async def test_no_error_contains_a_secret_even_if_ufm_repeats_it(token: str) -> None:
    echo = json.dumps({"you": list(SECRETS)}).encode()
    async with world_of(Scripted(text(400, echo)), token=token) as world:
        with failing() as caught:
            await world.client.do(Create(wanted()))
        shown = await pass_of(world.store, world.site)
    told = f"{caught[0]} {caught[0].detail} {caught[0]!r} {shown!r}"
    secret = SECRETS[2:] if token else SECRETS[:2]
    assert not any(one in told for one in secret)
    assert caught[0].__cause__ is None


@pytest.mark.parametrize(("temporary", "failure"), [(True, UfmFailure.UNREACHABLE), (False, UfmFailure.AUTH)])
async def test_an_unreadable_credential_is_reported_and_nothing_is_sent(temporary: bool, failure: UfmFailure) -> None:
    manager = Manager()
    trouble = CredentialError("env:UFM", "is not set", temporary=temporary)
    store = OneCredential("", "", "", trouble=trouble)
    async with world_of(UfmTransport(manager), store) as world:
        error = await failure_of_read(world)
    assert error.failure is failure and "env:UFM" in error.detail
    assert not manager.requests


async def test_a_refused_password_is_not_sent_again_for_a_minute() -> None:
    manager = Manager(password="rotated")
    async with world_with(manager) as world:
        for _ in range(11):
            error = await failure_of_read(world)
            assert error.failure is UfmFailure.AUTH and "refuses the user" in error.detail
            world.clock.advance(timedelta(seconds=5))
        with failing():
            await world.client.do(Create(wanted()))
        assert len(manager.requests) == 1
        world.clock.advance(timedelta(seconds=5))
        await failure_of_read(world)
    assert len(manager.requests) == 2


async def test_a_rotated_password_is_used_after_the_old_one_is_refused() -> None:
    manager = Manager(password="rotated")
    async with world_with(manager) as world:
        assert (await failure_of_read(world)).failure is UfmFailure.AUTH
        world.store.user = Credential(username=manager.username, password="rotated", version="2")
        world.clock.advance(timedelta(seconds=5))
        assert await world.client.read(1) is None
