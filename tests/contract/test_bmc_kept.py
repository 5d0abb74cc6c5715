"""Connections that are kept between the reads of a BMC: what ends them, and that they change no other promise."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from typing_extensions import override

from farrier.clock import wall
from farrier.config import BmcTrustConfig, CredentialBinding
from farrier.config.sites import CredentialsSite, Site
from farrier.model.credential import Credential
from farrier.model.intents.params import PowerRequest
from farrier.model.machine.bmc import BmcAuth, BmcError, BmcFailure, BmcTarget, PowerState
from farrier.protocols import CredentialStore
from farrier.services.bmc import kept, tls
from farrier.services.credentials.bindings import Bindings
from farrier.services.credentials.recent import READ_EVERY, RecentCredentials
from farrier.sim.certificates import Authority
from tests.support.bmc import CREDENTIAL, LOOPBACK, PASSWORD, SYSTEM, USERNAME, FakeBmc, Page, connect, fake_bmc
from tests.support.clock import HandClock
from tests.support.sockets import tls_with

NAME = "gpu-1.bmc.example"
SECOND = timedelta(seconds=1)


class Secrets(CredentialStore):
    """A store with one secret for all references, which a test may change; it counts the reads."""

    def __init__(self) -> None:
        self.password = PASSWORD
        self.number = 1
        self.reads = 0

    @override
    async def resolve(self, reference: str) -> Credential:
        self.reads += 1
        return Credential(username=USERNAME, password=self.password, version=f"v{self.number}")

    @override
    async def version(self, reference: str) -> str:
        return (await self.resolve(reference)).version

    @override
    async def token(self, reference: str) -> str:
        return self.password

    def change(self, password: str) -> None:
        self.password, self.number = password, self.number + 1


FILES = Bindings((CredentialBinding(references=("file:/run/creds/*",), networks=LOOPBACK),))


def at(bmc: FakeBmc, credential: str = CREDENTIAL) -> BmcTarget:
    return BmcTarget(address=bmc.url, credential=credential, system_path=SYSTEM)


@pytest.fixture
def keeping(bmc: FakeBmc) -> FakeBmc:
    bmc.keeps = True
    return bmc


@pytest.mark.parametrize("auth", list(BmcAuth))
async def test_reads_share_a_connection_and_send_one_request_each(keeping: FakeBmc, auth: BmcAuth) -> None:
    async with connect(keeping.ca_file, auth=auth) as client:
        await client.read(at(keeping))
        opened, sent = keeping.connections, len(keeping.requests)
        for _ in range(5):
            assert (await client.read(at(keeping))).power is PowerState.ON
        assert (keeping.connections - opened, len(keeping.requests) - sent) == (0, 5)
        assert keeping.open_connections == 1
    assert keeping.failed_logins == 0
    await keeping.until_open(0)


async def test_a_read_after_the_bmc_has_ended_the_connection_succeeds_with_one_request(keeping: FakeBmc) -> None:
    async with connect(keeping.ca_file) as client:
        await client.read(at(keeping))
        await keeping.hang_up()
        await client.read(at(keeping))
        assert (len(keeping.requests), keeping.connections) == (2, 2)
        await keeping.until_open(0)  # no connection is kept at such a BMC any more
        await client.read(at(keeping))
        assert (len(keeping.requests), keeping.connections) == (3, 3)


async def test_a_read_on_a_connection_that_the_bmc_resets_succeeds(keeping: FakeBmc) -> None:
    keeping.resets_reuse = True
    async with connect(keeping.ca_file) as client:
        for reads in (1, 2, 3):
            assert (await client.read(at(keeping))).power is PowerState.ON
            assert len(keeping.requests) == reads
        assert keeping.connections == 3
        await keeping.until_open(0)


async def test_a_bmc_that_resets_reused_connections_can_be_verified(keeping: FakeBmc) -> None:
    """The first request with the secret never goes over a connection that the BMC may reset."""
    keeping.resets_reuse = True
    async with connect(keeping.ca_file) as client:
        found = BmcTarget(address=keeping.url, credential=CREDENTIAL)
        assert (await client.verify(found, macs=True)).system_path == SYSTEM
    assert keeping.failed_logins == 0


async def test_a_bmc_that_ends_a_connection_is_tried_again_after_an_hour(keeping: FakeBmc) -> None:
    clock = HandClock()
    async with connect(keeping.ca_file, clock=clock) as client:
        await client.read(at(keeping))
        await keeping.hang_up()
        clock.advance(kept.GIVEN_UP_FOR)
        for _ in range(3):
            await client.read(at(keeping))
            await anyio.lowlevel.checkpoint()
        await keeping.hang_up()
        await client.read(at(keeping))
        await keeping.until_open(0)
        clock.advance(kept.GIVEN_UP_FOR + SECOND)
        opened = keeping.connections
        for _ in range(3):
            await client.read(at(keeping))
        assert keeping.connections == opened + 1


@pytest.mark.parametrize("status", [429, 503])
async def test_a_bmc_that_limits_its_clients_gets_a_connection_for_each_read(keeping: FakeBmc, status: int) -> None:
    async with connect(keeping.ca_file) as client:
        await client.read(at(keeping))
        keeping.answer(SYSTEM, Page(status))
        with pytest.raises(BmcError):
            await client.read(at(keeping))
        await keeping.until_open(0)
        del keeping.requests[:]
        keeping.answer(SYSTEM, {"PowerState": "On"})
        opened = keeping.connections
        for reads in (1, 2):
            await client.read(at(keeping))
            await keeping.until_open(0)
            assert (keeping.connections - opened, len(keeping.requests)) == (reads, reads)


async def test_a_bmc_that_refused_a_connection_gets_a_connection_for_each_read(keeping: FakeBmc) -> None:
    """A BMC that refuses a connection may have too many of them."""
    addresses = iter(["127.0.0.2", "127.0.0.1", "127.0.0.1"])

    async def lookup(_host: str) -> Sequence[str]:
        return (next(addresses),)

    trust, port = BmcTrustConfig(insecure=True), keeping.url.rpartition(":")[2]
    named = BmcTarget(address=f"https://{NAME}:{port}", credential=CREDENTIAL, system_path=SYSTEM)
    async with connect(keeping.ca_file, lookup=lookup, trust=trust) as client:
        with pytest.raises(BmcError, match="connection refused"):
            await client.read(named)
        for reads in (1, 2):
            await client.read(named)
            assert keeping.connections == reads


@pytest.mark.parametrize("most", [0, 1])
async def test_a_process_keeps_no_more_connections_than_it_may(tmp_path: Path, authority: Authority, most: int) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    async with fake_bmc(tmp_path / "one", authority) as one, fake_bmc(tmp_path / "two", authority) as two:
        one.keeps = two.keeps = True
        async with connect(one.ca_file, kept_connections=most) as client:
            for _ in range(3):
                await client.read(at(one))
                await client.read(at(two))
            await two.until_open(0)
            assert (one.open_connections, two.open_connections) == (most, 0)
            assert len(one.requests) == len(two.requests) == 3


async def test_a_connection_ends_when_the_bindings_change(bmc: FakeBmc) -> None:
    """The next read resolves the name again, and the new connection goes only to an address that is now allowed."""
    bindings, resolved = Bindings(), []
    bmc.keeps = True

    async def lookup(host: str) -> Sequence[str]:
        resolved.append(host)
        return ("127.0.0.1",)

    def sites(*networks: str) -> dict[str, Site]:
        binding = CredentialBinding(references=("env:*",), networks=networks)
        return {"ams1": Site(name="ams1", credentials=CredentialsSite(bindings=(binding,)))}

    named = BmcTarget(
        address=f"https://{NAME}:{bmc.url.rpartition(':')[2]}", credential=CREDENTIAL, system_path=SYSTEM, site="ams1"
    )
    bindings.use_sites(sites(*LOOPBACK))
    trust = BmcTrustConfig(insecure=True)
    async with connect(bmc.ca_file, bindings=bindings, lookup=lookup, trust=trust) as client:
        await client.read(named)
        bindings.use_sites(sites(*LOOPBACK))
        await client.read(named)
        assert (bmc.connections, resolved) == (1, [NAME])
        bindings.use_sites(sites(*LOOPBACK, "10.0.0.0/8"))
        await bmc.until_open(0)
        await client.read(named)
        assert (bmc.connections, resolved) == (2, [NAME, NAME])
        bindings.use_sites(sites("10.0.0.0/8"))
        await bmc.until_open(0)
        with pytest.raises(BmcError) as raised:
            await client.read(named)
        assert (raised.value.failure, bmc.connections) == (BmcFailure.INCOMPLETE, 2)


async def test_a_connection_ends_when_the_credential_is_another_or_has_a_new_version(keeping: FakeBmc) -> None:
    store, clock = Secrets(), HandClock()
    async with connect(keeping.ca_file, bindings=FILES, store=store, clock=clock) as client:
        target = at(keeping, "file:/run/creds/bmc-1")
        await client.read(target)
        store.change("another pass")
        keeping.password = "another pass"
        clock.advance(READ_EVERY)
        assert (await client.read(target)).credential_version == "v2"
        assert (keeping.connections, keeping.failed_logins) == (2, 0)
        for _ in range(2):
            await client.read(at(keeping, "file:/run/creds/bmc-2"))
        await keeping.until_open(1)
        assert keeping.connections == 3


async def test_a_client_with_another_certificate_policy_uses_no_earlier_connection(
    keeping: FakeBmc, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    other = Authority("another", now=wall()).write(tmp_path / "other" / "ca.crt")
    async with connect(keeping.ca_file) as client:
        await client.read(at(keeping))
    await keeping.until_open(0)
    async with connect(keeping.ca_file, trust=BmcTrustConfig(ca_file=str(other))) as client:
        with pytest.raises(BmcError) as raised:
            await client.read(at(keeping))
    assert raised.value.failure is BmcFailure.TLS
    assert len(keeping.requests) == 1


async def test_a_refused_read_ends_the_connection(keeping: FakeBmc) -> None:
    async with connect(keeping.ca_file) as client:
        await client.read(at(keeping))
        keeping.password = "changed"
        with pytest.raises(BmcError) as raised:
            await client.read(at(keeping))
        assert raised.value.failure is BmcFailure.AUTH
        await keeping.until_open(0)
    assert keeping.failed_logins == 1


@pytest.mark.parametrize(
    ("headers", "after"),
    [((), kept.IDLE), ((("Keep-Alive", "timeout=60, max=199"),), timedelta(seconds=58))],
    ids=["usual", "announced"],
)
async def test_a_connection_is_not_used_after_a_time_without_a_read(
    keeping: FakeBmc, headers: tuple[tuple[str, str], ...], after: timedelta
) -> None:
    clock, keeping.headers = HandClock(), headers
    async with connect(keeping.ca_file, clock=clock) as client:
        await client.read(at(keeping))
        clock.advance(after - SECOND)
        await client.read(at(keeping))
        assert keeping.connections == 1
        clock.advance(after)
        await client.read(at(keeping))
        assert keeping.connections == 2


async def test_a_connection_is_closed_after_an_hour_so_that_the_certificate_is_checked_again(keeping: FakeBmc) -> None:
    clock = HandClock()
    async with connect(keeping.ca_file, clock=clock) as client:
        minutes = int(kept.LIVES / timedelta(minutes=1))
        for _ in range(minutes):
            await client.read(at(keeping))
            clock.advance(timedelta(minutes=1))
        assert keeping.connections == 1
        await client.read(at(keeping))
        assert keeping.connections == 2


async def test_an_action_gets_a_connection_of_its_own(keeping: FakeBmc) -> None:
    async with connect(keeping.ca_file) as client:
        await client.read(at(keeping))
        await client.set_power(at(keeping), PowerRequest.OFF)
    assert keeping.methods["POST"] == 1
    assert keeping.connections == 3  # the first reads, the action, the reads that confirm it


async def test_a_bmc_that_keeps_no_connection_resumes_the_tls_session(tmp_path: Path, authority: Authority) -> None:
    context, clock = tls_with(authority.issue(tmp_path, hosts=("127.0.0.1",))), HandClock()
    async with fake_bmc(tmp_path, authority, tls=context) as bmc, connect(bmc.ca_file, clock=clock) as client:
        for _ in range(4):
            await client.read(at(bmc))
        assert context.session_stats()["hits"] == 3
        clock.advance(tls.CHECKED_FOR)
        await client.read(at(bmc))
        assert context.session_stats()["hits"] == 3


async def test_another_certificate_authority_resumes_no_session(tmp_path: Path, authority: Authority) -> None:
    context = tls_with(authority.issue(tmp_path, hosts=("127.0.0.1",)))
    async with fake_bmc(tmp_path, authority, tls=context) as bmc:
        for _ in range(2):
            async with connect(bmc.ca_file) as client:
                await client.read(at(bmc))
    assert context.session_stats()["hits"] == 0


def test_a_session_that_may_be_used_makes_no_room_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls, "MOST", 1)
    clock, session = HandClock(), cast("Any", object())
    context = tls.ResumingContext.at(clock)
    context.keep("one", session)
    assert not context.make_room("two")
    clock.advance(tls.CHECKED_FOR)
    assert context.make_room("two")


async def test_a_secret_in_a_file_is_read_once_a_minute_and_again_after_a_refusal(keeping: FakeBmc) -> None:
    store, clock = Secrets(), HandClock()
    target = at(keeping, "file:/run/creds/bmc-1")
    async with connect(keeping.ca_file, bindings=FILES, store=store, clock=clock) as client:
        for _ in range(3):
            await client.read(target)
        assert store.reads == 1
        clock.advance(READ_EVERY)
        await client.read(target)
        assert store.reads == 2
        keeping.password = "changed"
        with pytest.raises(BmcError):
            await client.read(target)
        store.change("changed")
        assert (await client.read(target)).credential_version == "v2"
    assert (store.reads, keeping.failed_logins) == (3, 1)


async def test_secrets_that_no_read_may_use_are_forgotten() -> None:
    clock = HandClock()
    recent = RecentCredentials(Secrets(), clock)
    await recent.recent("file:/run/creds/bmc-1")
    assert recent.known_version("file:/run/creds/bmc-1") == "v1"
    clock.advance(READ_EVERY)
    assert recent.known_version("file:/run/creds/bmc-1") is None
    await recent.recent("file:/run/creds/bmc-2")
    assert "bmc-1" not in repr(vars(recent))
