"""Allocations and releases in any order, against a model that is a set of addresses and a dictionary of owners.

Hypothesis generates the networks, with gateways and reserved addresses, and the script. After each step the database
must have returned what the model returns, and have the model's free ranges, with adjacent ranges joined.
"""

from __future__ import annotations

import itertools
from ipaddress import IPv4Address, IPv4Network, IPv6Network, ip_address, ip_network
from typing import TypeAlias

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from farrier.handlers.network_segment.prefixes import parse_address, parse_prefix, room
from tests.support import pg
from tests.support.segments import Address, Lan

Network: TypeAlias = IPv4Network | IPv6Network
OWNERS = "abcdef"

# Small networks, whose hosts the test can list: the lowest and highest addresses, adjacent ones, and both families.
NETWORKS = [
    "0.0.0.0/30",
    "10.0.0.0/29",
    "10.0.0.8/30",
    "10.0.0.12/31",
    "10.0.0.14/32",
    "255.255.255.248/29",
    "::/126",
    "2001:db8::/125",
    "2001:db8::8/127",
    "2001:db8::a/128",
    "ffff:ffff:ffff:ffff:ffff:ffff:ffff:fff8/125",
]


class Plan(msgspec.Struct, frozen=True):
    """The parameters of a segment's creation."""

    prefixes: tuple[str, ...]
    gateways: tuple[str, ...]
    reserved_first: int
    reserved_last: int

    def hosts(self, prefix: str) -> list[Address]:
        """The addresses of a prefix that may be allocated, computed by listing all."""
        network = ip_network(prefix)
        every: list[Address] = list(network)
        if network.num_addresses > 2:
            every = every[1:-1] if isinstance(network, IPv4Network) else every[1:]
        kept = every[self.reserved_first : len(every) - self.reserved_last]
        return [address for address in kept if str(address) not in self.gateways]

    def every_host(self) -> dict[Address, Network]:
        return {host: ip_network(prefix) for prefix in self.prefixes for host in self.hosts(prefix)}


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    prefixes = draw(st.lists(st.sampled_from(NETWORKS), min_size=1, max_size=4, unique=True))
    gateways = []
    for prefix in prefixes:
        hosts = Plan((prefix,), (), 0, 0).hosts(prefix)
        if draw(st.booleans()):
            gateways.append(str(draw(st.sampled_from(hosts))))
    return Plan(tuple(prefixes), tuple(gateways), draw(st.integers(0, 2)), draw(st.integers(0, 2)))


class Model:
    """The allocatable addresses, and the owner of each that is held."""

    def __init__(self, plan: Plan) -> None:
        self.home = plan.every_host()
        self.held: dict[Address, str] = {}

    def free(self) -> list[Address]:
        return sorted((host for host in self.home if host not in self.held), key=order)

    def of(self, owner: str, version: int | None) -> Address | None:
        mine = [host for host, holder in self.held.items() if holder == owner and version in (None, host.version)]
        return min(mine, key=order, default=None)

    def take(self, owner: str, wanted: Address | Network | None) -> Address | None:
        """Allocate an address; None: the request is refused."""
        has = self.of(owner, None if wanted is None else wanted.version)
        if has is not None:
            return has if fits(has, wanted) else None
        found = next((host for host in self.free() if fits(host, wanted)), None)
        if found is not None:
            self.held[found] = owner
        return found

    def ranges(self) -> list[tuple[str, str]]:
        """The free ranges; adjacent ranges of a prefix are joined."""
        joined: list[list[Address]] = []
        for host in self.free():
            last = joined[-1][-1] if joined else None
            if last is not None and order(last) == (host.version, int(host) - 1) and self.home[last] == self.home[host]:
                joined[-1].append(host)
            else:
                joined.append([host])
        return [(str(run[0]), str(run[-1])) for run in joined]


def order(address: Address) -> tuple[int, int]:
    return address.version, int(address)


def fits(host: Address, wanted: Address | Network | None) -> bool:
    if wanted is None:
        return True
    return host == wanted or (isinstance(wanted, IPv4Network | IPv6Network) and host in wanted)


# A call, its owner, and the number of the host or prefix in it.
STEPS = st.tuples(
    st.sampled_from(["take", "take", "this", "within", "give", "give other"]),
    st.sampled_from(OWNERS),
    st.integers(0, 30),
)
_segments = itertools.count(1)


@settings(deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(plan=plans(), script=st.lists(STEPS, max_size=30))
async def test_allocations_agree_with_a_simple_model(lan: Lan, plan: Plan, script: list[tuple[str, str, int]]) -> None:
    name = f"lan-{next(_segments)}"
    asked = {"site": name, "prefixes": plan.prefixes, "gateways": plan.gateways}
    reserved = {"reserved_first": plan.reserved_first, "reserved_last": plan.reserved_last}
    ways = [parse_address(gateway) for gateway in plan.gateways]
    for prefix in plan.prefixes:
        here = [way for way in ways if way in ip_network(prefix)]
        assert max(0, room(parse_prefix(prefix), here, **reserved)) == len(plan.hosts(prefix))
    if not all(plan.hosts(prefix) for prefix in plan.prefixes):
        with pytest.raises(pg.PostgresError, match="has no allocatable address"):
            await lan.ask(name, "create", **asked, **reserved)
        return
    request = await lan.ask(name, "create", **asked, **reserved)
    made = await lan.conn.fetchval("SELECT resource_id FROM farrier.resource_intents WHERE id = $1", request)
    await lan.conn.execute("UPDATE farrier.network_segments SET state = 'ready' WHERE id = $1", made)
    model = Model(plan)
    for act, owner, number in script:
        await happens(lan, name, model, act, owner, number)
        assert await lan.free(made) == model.ranges()
    assert await lan.conn.fetchval("SELECT allocated FROM farrier.segment_usage WHERE segment = $1", made) == len(
        model.held
    )


async def happens(lan: Lan, name: str, model: Model, act: str, owner: str, number: int) -> None:
    hosts = sorted(model.home, key=order)
    host = hosts[number % len(hosts)]
    if act.startswith("give"):
        mine = model.of(owner, None)
        address = mine if act == "give" and mine is not None else host
        await gives(lan, name, model, owner, address)
        return
    wanted = {"take": None, "this": host, "within": model.home[host]}[act]
    expected = model.take(owner, wanted)
    try:
        got = await lan.take(owner, None if wanted is None else str(wanted), segment=name)
    except pg.PostgresError as refused:
        if expected is not None or refused.sqlstate != "FR409":
            raise
    else:
        assert ip_address(got) == expected


async def gives(lan: Lan, name: str, model: Model, owner: str, address: Address) -> None:
    holder = model.held.get(address)
    try:
        given_back = await lan.give(owner, str(address), segment=name)
    except pg.PostgresError as refused:
        if holder in (None, owner) or refused.sqlstate != "FR409":
            raise
    else:
        assert given_back == (holder == owner)
        if given_back:
            del model.held[address]


def test_the_model_of_this_test_follows_the_rules() -> None:
    plan = Plan(("10.0.0.0/29", "10.0.0.8/30"), ("10.0.0.3",), 0, 0)
    model = Model(plan)
    assert model.ranges() == [("10.0.0.1", "10.0.0.2"), ("10.0.0.4", "10.0.0.6"), ("10.0.0.9", "10.0.0.10")]
    assert model.take("a", IPv4Address("10.0.0.5")) == IPv4Address("10.0.0.5")
    assert model.take("b", ip_network("10.0.0.8/30")) == IPv4Address("10.0.0.9")
