"""The region is replaced by another, or its key by that of another user: no node fails, freezes or leaves service."""

from __future__ import annotations

import httpx
import msgspec
import pytest

from farrier.io.kinds import maas_region
from tests.support import pg
from tests.support.maas_region import Caller, created
from tests.support.onboarded import UNSYNCED, active, begun, deployed, enrolled, manageable, record, until
from tests.support.site import MINUTE, SECOND, Site
from tests.support.wire import Wire, instead

OTHERS = 5


async def reload_sites(site: Site, *, url: str | None = None) -> None:
    """Reload the sites, with another URL if one is given."""
    assert UNSYNCED.maas is not None
    maas = msgspec.structs.replace(UNSYNCED.maas, url=url or UNSYNCED.maas.url)
    changed = {UNSYNCED.name: msgspec.structs.replace(UNSYNCED, maas=maas)}
    async with site.db.pool(1) as pool:
        await maas_region.use(pool, changed)
    site.maas.handler.use_sites(changed)


async def region_is(site: Site, state: str) -> bool:
    found: str = await site.conn.fetchval("SELECT state FROM farrier.maas_regions")
    return found == state


def another(request: httpx.Request, answer: httpx.Response, body: bytes) -> httpx.Response:
    """Change the response to that of a region that has none of farrier's machines."""
    path = request.url.path
    if request.method != "GET" or "/machines/" not in path:
        return instead(answer, body)
    if path.endswith("/machines/"):
        return instead(answer, b"{}" if "op" in request.url.params else b"[]")
    answer.status_code = 404
    return instead(answer, b"No Machine matches the given query.")


async def with_others(site: Site) -> None:
    """Register nodes with machines besides the nodes that a test is about."""
    for number in range(100, 100 + OTHERS):
        await site.register(f"other{number}", maas_id=await created(Caller(site.maas.region), number))
    await site.wait(10 * SECOND)


async def test_a_url_that_is_edited_while_the_region_is_away_freezes_no_node(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = await deployed(await begun(await manageable(site)))
    before = await node.state()

    async def away(_self: Wire, request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("nobody there", request=request)

    with monkeypatch.context() as patched:
        patched.setattr(Wire, "handle_async_request", away)
        await reload_sites(site, url="https://maas.test/MAAS")
        for _ in range(10):
            await site.wait(MINUTE)
            assert await node.state() == before
    await site.wait(5 * MINUTE)
    node = await enrolled(node)
    assert (await node.state())[0] == "active"


async def test_a_region_without_any_of_farriers_machines_takes_no_node_out_of_service(site: Site, wire: Wire) -> None:
    """The settings name another region's URL, or the region was restored without farrier's machines."""
    await with_others(site)
    node = await active(site)
    await site.wait(MINUTE)
    ours, wire.misread = wire.misread, another
    await reload_sites(site, url="http://other.test/MAAS")
    for _ in range(30):
        await site.wait(10 * SECOND)
        await node.beat()
        assert (await node.state())[0] == "active"
        assert not await region_is(site, "observing")
    assert await region_is(site, "failing")
    assert "too many machines" in await site.conn.fetchval("SELECT last_error FROM farrier.maas_regions")
    wire.misread = ours
    await reload_sites(site)
    await site.wait(MINUTE)
    await node.beat()
    assert await region_is(site, "observing")
    assert (await node.state())[0] == "active"


async def test_an_onboarding_waits_while_its_url_leads_to_another_region(site: Site, wire: Wire) -> None:
    await with_others(site)
    node = await begun(await manageable(site))
    await until(node, "wait_for_ready", every=5 * SECOND)
    await site.wait(40 * SECOND)
    before = await node.state()
    ours, wire.misread = wire.misread, another
    sent = len(wire.sent)
    await reload_sites(site, url="http://other.test/MAAS")
    for _ in range(10):
        await site.wait(30 * SECOND)
        assert await node.state() == before
    assert len(wire.sent) == sent, "no change is sent to the other region"
    wire.misread = ours
    await reload_sites(site)
    await deployed(node)


async def test_a_key_of_another_user_freezes_no_node(site: Site, wire: Wire) -> None:
    """The region is failing, and its error names the user whose key is needed."""
    node = await deployed(await begun(await manageable(site)))
    await site.wait(40 * SECOND)
    before = await node.state()
    machine = await record(node)
    ours, machine.owner = machine.owner, "former"
    async with site.conn.transaction():
        await site.conn.execute("UPDATE farrier.maas_regions SET username = 'former', version = version + 1")
        await site.conn.execute("""UPDATE farrier.node_observations SET detail = detail || '{"owner": "former"}'""")
    await site.wait(MINUTE)
    await reload_sites(site)
    for _ in range(10):
        await site.wait(MINUTE)
        assert await node.state() == before, await site.conn.fetchval(
            "SELECT failure_detail FROM farrier.node_lifecycle"
        )
    assert await region_is(site, "failing")
    assert "configure a key of 'former'" in await site.conn.fetchval("SELECT last_error FROM farrier.maas_regions")
    machine.owner = ours  # the machine is handed over to us
    await site.wait(6 * MINUTE)
    assert await region_is(site, "observing")
    assert await node.state() == before
    assert await site.conn.fetchval("SELECT username FROM farrier.maas_regions") == ours
    assert (await (await enrolled(node)).state())[0] == "active"


async def test_an_id_that_no_machine_has_is_refused_when_a_node_is_registered(site: Site) -> None:
    with pytest.raises(pg.PostgresError, match="'gpu-1' is not usable: expected the MAAS system ID"):
        await site.register("bad", maas_id="gpu-1")


async def test_a_doubt_about_a_region_remains_while_the_region_is_unconfigured(site: Site, wire: Wire) -> None:
    await with_others(site)
    waiting = await manageable(site)
    await site.wait(40 * SECOND)
    wire.misread = another
    await reload_sites(site, url="http://other.test/MAAS")
    await site.wait(MINUTE)
    node = await begun(waiting)
    await site.wait(MINUTE)
    before, sent = await node.state(), len(wire.sent)
    site.maas.handler.use_sites({})
    for _ in range(14):
        await site.wait(MINUTE)
    assert await region_is(site, "unconfigured")
    assert await node.state() == before
    assert wire.sent[sent:] == []
