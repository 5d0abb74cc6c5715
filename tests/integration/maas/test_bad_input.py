"""Responses of a region that cannot be true or cannot be read: the failure has a clear class, nothing is lost, and no
change is sent because of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any, TypeAlias

import anyio
import httpx
import msgspec
import pytest
from typing_extensions import override

from farrier.services.maas.service import ATTEMPTS, LARGEST_BODY_BYTES
from farrier.sim.maas import Region
from farrier.sim.maas.http.app import ROOT
from tests.support import pg
from tests.support import site as sites
from tests.support.maas_region import Caller, created
from tests.support.onboarded import (
    QUICK,
    UNSYNCED,
    active,
    begun,
    deployed,
    enrolled,
    maas_id,
    manageable,
    record,
    until,
)
from tests.support.site import MINUTE, SECOND, Machine, Site
from tests.support.wire import Misread, Wire, instead, response

Edit: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]
PAGE = b"<html><body>Please log in</body></html>"


def edited(edit: Edit) -> Misread:
    """A misread in which `edit` changes each machine."""

    def misread(request: httpx.Request, answer: httpx.Response, body: bytes) -> httpx.Response:
        if "/machines/" in request.url.path and "op" not in request.url.params and answer.status_code == 200:
            shown = msgspec.json.decode(body)
            body = msgspec.json.encode(edit(shown) if isinstance(shown, dict) else [edit(one) for one in shown])
        return instead(answer, body)

    return misread


def unknown_status(machine: dict[str, Any]) -> dict[str, Any]:
    return machine | {"status": 77, "status_name": "Hibernating"}


async def region_fails(site: Site) -> str | None:
    """The class of the observer's failure; None: it does not fail."""
    failure: str | None = await site.conn.fetchval("SELECT failure FROM farrier.maas_regions")
    return failure


async def waits_for(node: Machine) -> str:
    """The reason of the node's last outcome."""
    return str(msgspec.json.decode((await node.look())["outcome"])["reason"])


async def lives(node: Machine, minutes: int) -> str:
    for _ in range(0, minutes, 2):
        await node.beat()
        await node.site.wait(2 * MINUTE)
    return (await node.state())[0] or ""


# --- an unknown status number


@pytest.mark.parametrize("stage", ["wait_for_ready", "wait_for_deployed"])
async def test_an_onboarding_waits_while_the_status_of_its_machine_is_unknown(
    site: Site, wire: Wire, stage: str
) -> None:
    node = await begun(await manageable(site))
    await until(node, stage)
    usual, sent = wire.misread, [*wire.sent]
    wire.misread = edited(unknown_status)
    for _ in range(5):
        await site.wait(MINUTE)
    assert (await node.state())[0] == "enrolling" and "Hibernating" in await waits_for(node)
    assert wire.sent == sent
    wire.misread = usual
    await enrolled(await deployed(node))
    assert (await node.state())[0] == "active"


async def test_a_node_whose_machine_has_an_unknown_status_stays_in_service(site: Site, wire: Wire) -> None:
    node = await active(site)
    wire.misread = edited(unknown_status)
    site.maas.region.note(await record(node), "Node changed status")
    assert await lives(node, 8) == "active"
    assert await site.conn.fetchval("SELECT state FROM farrier.node_observations") == "unknown"


# --- machines that are not what was asked for


def listed(change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> Misread:
    """A misread in which `change` edits lists of machines."""

    def misread(request: httpx.Request, answer: httpx.Response, body: bytes) -> httpx.Response:
        if request.url.path == f"{ROOT}machines/" and "op" not in request.url.params:
            body = msgspec.json.encode(change(msgspec.json.decode(body)))
        return instead(answer, body)

    return misread


async def test_a_machine_that_is_listed_twice_is_read_once(site: Site, wire: Wire) -> None:
    wire.misread = listed(lambda machines: machines + machines)
    node = await active(site)
    assert await region_fails(site) is None
    assert await lives(node, 4) == "active"
    assert wire.ops.count("create") == 1


async def test_a_machine_that_is_listed_twice_with_different_data_is_read_by_its_id(site: Site, wire: Wire) -> None:
    node = await active(site)
    wire.misread = listed(lambda machines: [shown for one in machines for shown in (one, unknown_status(one))])
    site.maas.observed.requests.clear()
    site.maas.region.note(await record(node), "Node changed status")
    assert await lives(node, 6) == "active"
    assert {("machines", "protocol"), ("machine", "ok")} <= {*site.maas.observed.requests}
    assert await region_fails(site) is None
    assert await node.path() == ["enrolling", "active"]


@pytest.mark.parametrize("stage", ["wait_for_ready", "wait_for_agent_enrollment"])
async def test_a_response_with_another_machine_id_is_not_taken_for_the_node_s_machine(
    site: Site, wire: Wire, stage: str
) -> None:
    node = await begun(await manageable(site))
    await until(node, stage)
    usual, sent, known = wire.misread, [*wire.sent], await maas_id(node)
    wire.misread = edited(lambda machine: machine | {"system_id": "zzzzzz"})
    for _ in range(5):
        await site.wait(MINUTE)
    assert await maas_id(node) == known
    assert wire.sent == sent
    wire.misread = usual
    await enrolled(await deployed(node))
    assert (await node.state())[0] == "active"


async def test_another_machine_with_the_node_s_host_name_is_a_conflict_for_an_operator(site: Site, wire: Wire) -> None:
    """Another machine, with another BMC and another MAC address, was given the node's host name."""
    await created(Caller(site.maas.region), 7, hostname="gpu-1")
    node = await begun(await manageable(site, name="gpu-1"))
    await until(node, "failed_manual_intervention")
    row = await node.look()
    assert (row["failure_class"], row["status"]) == ("discovery_conflict", "quarantined")
    assert wire.sent == [] and await maas_id(node) is None


async def test_a_new_machine_with_the_node_s_host_name_is_not_the_deployed_one(site: Site, wire: Wire) -> None:
    node = await active(site)
    machine = await record(node)
    wire.sent.clear()
    site.maas.region.forget(machine)
    await created(Caller(site.maas.region), 7, hostname=node.name, mac_addresses="52:54:00:00:00:01")
    assert await lives(node, 40) == "quarantined"
    assert await node.quarantine() == "region/machine_deleted"
    assert await maas_id(node) == machine.system_id
    assert wire.sent == []


# --- clocks, keys, and answers that never end


async def test_clock_skew_stops_all_changes_and_loses_nothing(site: Site, wire: Wire) -> None:
    in_service = await active(site)
    node = await begun(await manageable(site, macs=["52:54:00:00:00:02"]))
    await until(node, "wait_for_ready")
    sent = [*wire.sent]
    site.maas.region.keys.skew = 600.0
    assert await lives(in_service, 20) == "active"
    assert await region_fails(site) == "clock_skew"
    assert wire.sent == sent
    assert (await node.state())[1:] == ("running", "wait_for_ready"), (
        "a failure of the region is not a failure of the node"
    )
    site.maas.region.keys.skew = 0.0
    await enrolled(await deployed(node))
    assert await region_fails(site) is None


class Drip(httpx.AsyncByteStream):
    """A body that never ends."""

    @override
    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b"{"
        await anyio.sleep_forever()


# Bad responses, and how often each comes before the client reports it: transient ones are retried at once.
BADLY: dict[str, tuple[Callable[[], httpx.Response], int]] = {
    "a page": (lambda: response(200, PAGE), 1),
    "half of it": (lambda: response(200, b'[{"system_id": "x3'), 1),
    "null": (lambda: response(200, b"null"), 1),
    "too much": (lambda: response(200, b" " * (LARGEST_BODY_BYTES + 1)), 1),
    "too many requests": (lambda: response(429, b"", retry_after="3"), ATTEMPTS),
    "a gateway's error": (lambda: response(502, PAGE), ATTEMPTS),
    "a lost key": (lambda: response(401, b"Authorization Error: Invalid API key."), 1),
}


class EachReadBadly:
    """The first `times` reads of each kind get the bad response, and all later ones succeed."""

    def __init__(self, bad: Callable[[], httpx.Response], times: int) -> None:
        self._bad = bad
        self._times = times
        self.struck: Counter[str] = Counter()

    def __call__(self, request: httpx.Request, answer: httpx.Response, body: bytes) -> httpx.Response:
        parts = request.url.path.removeprefix(ROOT).strip("/").split("/")
        kind = request.url.params.get("op") or parts[0] + " one" * (len(parts) - 1)
        self.struck[kind] += 1
        return self._bad() if self.struck[kind] <= self._times else instead(answer, body)


@pytest.mark.matrix(keep=2)
@pytest.mark.parametrize("bad", BADLY)
async def test_one_bad_response_to_each_kind_of_read_changes_no_request_of_the_onboarding(
    site: Site, wire: Wire, bad: str
) -> None:
    wire.misread = struck = EachReadBadly(*BADLY[bad])
    node = await active(site)
    assert {*struck.struck} >= {"whoami", "machines", "machines one", "power_parameters", "query"}
    assert wire.ops == ["create", "commission", "set_boot_disk", "set_storage_layout", "deploy"]
    assert await node.path() == ["enrolling", "active"]


async def test_a_response_that_never_ends_is_given_up(db: pg.Database) -> None:
    wire = Wire(Region(durations=QUICK))
    wire.patience = timedelta(milliseconds=300)
    async with sites.opened(db, region=wire, config=UNSYNCED) as site:
        node = await begun(await manageable(site))
        await until(node, "wait_for_ready")
        usual, dripped = wire.misread, []

        def drips(request: httpx.Request, answer: httpx.Response, body: bytes) -> httpx.Response:
            dripped.append(request.url.path)
            return httpx.Response(200, stream=Drip())

        wire.misread = drips
        await site.wait(10 * SECOND)
        assert dripped and await region_fails(site) == "timeout"
        wire.misread = usual
        await enrolled(await deployed(node))
        assert (await node.state())[0] == "active"
