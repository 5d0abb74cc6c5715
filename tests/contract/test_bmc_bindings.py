"""A secret is sent only to hosts to which it is bound: host, address and connection are checked before it is read.

The test resolves the names, and may change their addresses; the BMC behind them is our own fake.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path

import anyio
import msgspec
import pytest
from typing_extensions import override

from farrier.clock import MonotonicClock
from farrier.config import CredentialBinding
from farrier.config.sites import CredentialsSite, Site
from farrier.errors import CredentialError
from farrier.model.credential import Credential
from farrier.model.intents.params import PowerRequest
from farrier.model.machine.bmc import BmcAuth, BmcError, BmcFailure, BmcTarget, PowerState
from farrier.protocols import CredentialStore
from farrier.services.bmc.client import RedfishBmc
from farrier.services.credentials.bindings import Bindings
from farrier.services.credentials.recent import RecentCredentials
from farrier.services.credentials.routes import BoundCredentials, Ways
from farrier.sim.certificates import Authority
from tests.support.bmc import LOOPBACK, PASSWORD, SYSTEM, USERNAME, FakeBmc, connect, fake_bmc

NAME = "gpu-1.bmc.example"
REFERENCE = "file:/run/creds/bmc-1"
EVERYWHERE = ("0.0.0.0/0",)

Call = Callable[[RedfishBmc, BmcTarget], Awaitable[object]]
CALLS: dict[str, Call] = {
    "verify": lambda client, target: client.verify(target),
    "read": lambda client, target: client.read(target),
    "set_power": lambda client, target: client.set_power(target, PowerRequest.OFF),
}


class Recorded(CredentialStore):
    """A store that records reads in `events`; it returns a secret only after `ready` is set."""

    def __init__(self, events: list[str], ready: anyio.Event | None = None) -> None:
        self._events = events
        self._ready = ready

    @override
    async def resolve(self, reference: str) -> Credential:
        if self._ready is not None:
            await self._ready.wait()
        self._events.append("read")
        return Credential(username=USERNAME, password=PASSWORD, version="v1")

    @override
    async def version(self, reference: str) -> str:
        return (await self.resolve(reference)).version

    @override
    async def token(self, reference: str) -> str:
        return (await self.resolve(reference)).password


class Names:
    """A name server with one answer for each query in turn; the last one stays."""

    def __init__(self, events: list[str], *answers: Sequence[str]) -> None:
        self._events = events
        self._answers = list(answers)

    async def __call__(self, host: str) -> Sequence[str]:
        self._events.append(f"resolve {host}")
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


def bound(*, hosts: tuple[str, ...] = (), networks: tuple[str, ...] = ()) -> Bindings:
    return Bindings((CredentialBinding(references=("file:/run/creds/bmc-*",), hosts=hosts, networks=networks),))


def named(bmc: FakeBmc, reference: str = REFERENCE, *, site: str | None = None) -> BmcTarget:
    port = bmc.url.rpartition(":")[2]
    return BmcTarget(address=f"https://{NAME}:{port}", credential=reference, system_path=SYSTEM, site=site)


@pytest.fixture
async def named_bmc(tmp_path: Path, authority: Authority) -> AsyncIterator[FakeBmc]:
    certificate = authority.issue(tmp_path, hosts=(NAME,))
    async with fake_bmc(tmp_path, authority, certificate=certificate) as bmc:
        yield bmc


async def refused(client: RedfishBmc, target: BmcTarget, call: Call = CALLS["read"]) -> BmcError:
    with pytest.raises(BmcError) as raised:
        await call(client, target)
    return raised.value


@pytest.mark.parametrize("auth", list(BmcAuth))
async def test_a_secret_is_read_once_the_checked_address_has_proven_its_name(named_bmc: FakeBmc, auth: BmcAuth) -> None:
    events: list[str] = []
    store = Recorded(events, ready=named_bmc.connected)  # the read would hang if it came before the connection
    names = Names(events, ["127.0.0.1"])
    bindings = bound(hosts=("*.bmc.example",), networks=("127.0.0.0/8",))
    async with connect(named_bmc.ca_file, bindings=bindings, lookup=names, store=store, auth=auth) as client:
        reading = await client.read(named(named_bmc))
    assert reading.power is PowerState.ON
    assert events == [f"resolve {NAME}", "read"]
    assert named_bmc.logins == 1


@pytest.mark.parametrize("call", CALLS.values(), ids=list(CALLS))
@pytest.mark.parametrize("auth", list(BmcAuth))
async def test_without_a_binding_no_name_is_resolved_no_bmc_called_and_no_secret_read(
    named_bmc: FakeBmc, call: Call, auth: BmcAuth
) -> None:
    events: list[str] = []
    for bindings in (Bindings(), bound(hosts=("other.example",)), bound(hosts=("bmc.example", "*.example"))):
        async with connect(
            named_bmc.ca_file,
            bindings=bindings,
            lookup=Names(events, ["127.0.0.1"]),
            store=Recorded(events),
            auth=auth,
        ) as client:
            error = await refused(client, named(named_bmc, site="ams1"), call)
        assert (error.failure, error.dialled) == (BmcFailure.INCOMPLETE, False)
        for said in (REFERENCE, NAME, "[[credentials.bindings]]", "site ams1"):
            assert said in error.detail
    assert events == []
    assert not named_bmc.connected.is_set()


async def test_a_name_outside_of_the_networks_gets_no_connection_and_no_secret_is_read(named_bmc: FakeBmc) -> None:
    events: list[str] = []
    bindings = bound(hosts=("*.bmc.example",), networks=("10.8.0.0/16",))
    for addresses in (["127.0.0.1"], ["10.8.0.17", "127.0.0.1"]):
        names = Names(events, addresses)
        async with connect(
            named_bmc.ca_file, bindings=bindings, lookup=names, store=Recorded(events), allowed_networks=EVERYWHERE
        ) as client:
            error = await refused(client, named(named_bmc))
        assert (error.failure, error.dialled) == (BmcFailure.INCOMPLETE, False)
        assert "127.0.0.1" in error.detail
    assert "read" not in events
    assert not named_bmc.connected.is_set()


async def test_a_name_is_resolved_once_in_a_call(named_bmc: FakeBmc) -> None:
    """A second answer would be unchecked. Ending the session does not resolve the name again either."""
    events: list[str] = []
    names = Names(events, ["127.0.0.1"], ["192.0.2.1"])
    bindings = bound(networks=("127.0.0.0/8",))
    async with connect(
        named_bmc.ca_file,
        bindings=bindings,
        lookup=names,
        store=Recorded(events),
        auth=BmcAuth.SESSION,
        allowed_networks=EVERYWHERE,
    ) as client:
        await client.verify(named(named_bmc), macs=True)
        assert len(named_bmc.requests) > 3
        error = await refused(client, named(named_bmc))
        assert "192.0.2.1" in error.detail
    assert named_bmc.sessions == set()
    assert events == [f"resolve {NAME}", "read", f"resolve {NAME}"]


async def test_a_server_with_another_name_gets_no_secret(bmc: FakeBmc) -> None:
    """The server's certificate is issued by the trusted authority, but for another name."""
    events: list[str] = []
    async with connect(
        bmc.ca_file,
        bindings=bound(hosts=(NAME,)),
        lookup=Names(events, ["127.0.0.1"]),
        store=Recorded(events),
    ) as client:
        error = await refused(client, named(bmc))
    assert error.failure is BmcFailure.TLS
    assert events == [f"resolve {NAME}"]
    assert bmc.requests == []


async def test_no_secret_is_read_for_an_unreachable_address(named_bmc: FakeBmc) -> None:
    events: list[str] = []
    nobody = BmcTarget(address="https://127.0.0.1:1", credential=REFERENCE, system_path=SYSTEM)
    async with connect(named_bmc.ca_file, bindings=bound(networks=("127.0.0.0/8",)), store=Recorded(events)) as client:
        error = await refused(client, nobody)
    assert error.failure is BmcFailure.UNREACHABLE
    assert events == []


async def test_bindings_of_a_site_apply_only_to_its_nodes_after_each_reload(named_bmc: FakeBmc) -> None:
    bindings = Bindings()
    own = CredentialBinding(references=(REFERENCE,), networks=("127.0.0.0/8",))
    sites = {"ams1": Site(name="ams1", credentials=CredentialsSite(bindings=(own,))), "fra1": Site(name="fra1")}
    async with connect(
        named_bmc.ca_file, bindings=bindings, lookup=Names([], ["127.0.0.1"]), store=Recorded([])
    ) as client:
        assert (await refused(client, named(named_bmc, site="ams1"))).failure is BmcFailure.INCOMPLETE
        bindings.use_sites(sites)
        await client.read(named(named_bmc, site="ams1"))
        for site in ("fra1", "unknown", None):
            assert (await refused(client, named(named_bmc, site=site))).failure is BmcFailure.INCOMPLETE
        bindings.use_sites({})
        assert (await refused(client, named(named_bmc, site="ams1"))).failure is BmcFailure.INCOMPLETE


def steps(bindings: Bindings, events: list[str], *answers: Sequence[str]) -> BoundCredentials:
    """The credentials as steps of nodes get them, with bindings before the store."""
    return BoundCredentials(
        RecentCredentials(Recorded(events), MonotonicClock()), Ways(bindings, LOOPBACK, lookup=Names(events, *answers))
    )


async def test_the_version_of_a_secret_is_read_only_for_a_bound_host(bmc: FakeBmc) -> None:
    events: list[str] = []
    bindings = bound(hosts=(NAME,), networks=("127.0.0.0/8",))
    assert await steps(bindings, events, ["127.0.0.1"]).version(named(bmc)) == "v1"
    events.clear()
    for refusing, addresses in ((Bindings(), ["127.0.0.1"]), (bindings, ["127.0.0.1", "10.0.0.1"])):
        with pytest.raises(CredentialError) as raised:
            await steps(refusing, events, addresses).version(named(bmc))
        assert not raised.value.temporary
    assert "read" not in events


async def test_a_region_gets_a_secret_only_if_the_name_itself_is_bound(bmc: FakeBmc) -> None:
    events: list[str] = []
    by_network, by_name = bound(networks=("127.0.0.0/8",)), bound(hosts=("*.bmc.example",))
    number = BmcTarget(address="127.0.0.1", credential=REFERENCE)
    for refusing in (Bindings(), by_network):
        with pytest.raises(CredentialError) as raised:
            await steps(refusing, events, ["127.0.0.1"]).for_region(named(bmc))
        assert "[[credentials.bindings]]" in str(raised.value)
    assert "read" not in events
    assert (await steps(by_name, events, ["127.0.0.1"]).for_region(named(bmc))).password == PASSWORD
    assert (await steps(by_network, events, ["127.0.0.1"]).for_region(number)).password == PASSWORD


async def test_a_region_gets_no_secret_if_the_names_binding_excludes_its_address(
    bmc: FakeBmc,
) -> None:
    """Another binding matches by the network alone, and does not allow the name, which the region resolves itself."""
    events: list[str] = []
    by_name = CredentialBinding(references=(REFERENCE,), hosts=("*.bmc.example",), networks=("10.8.0.0/16",))
    by_network = CredentialBinding(references=(REFERENCE,), networks=("127.0.0.0/8",))
    elsewhere = Bindings((by_name, by_network))
    assert await steps(elsewhere, events, ["127.0.0.1"]).version(named(bmc)) == "v1"
    events.clear()
    with pytest.raises(CredentialError, match="bound only to networks"):
        await steps(elsewhere, events, ["127.0.0.1"]).for_region(named(bmc))
    assert "read" not in events
    both = Bindings((msgspec.structs.replace(by_name, networks=("127.0.0.0/8",)), by_network))
    assert (await steps(both, events, ["127.0.0.1"]).for_region(named(bmc))).password == PASSWORD


async def test_an_unresolvable_name_is_a_temporary_error(bmc: FakeBmc) -> None:
    async def nothing(host: str) -> Sequence[str]:
        raise OSError("no such name")

    ways = Ways(bound(hosts=(NAME,)), LOOPBACK, lookup=nothing)
    with pytest.raises(CredentialError) as raised:
        await BoundCredentials(RecentCredentials(Recorded([]), MonotonicClock()), ways).version(named(bmc))
    assert raised.value.temporary
