"""Each detail of a node in each interface (registration, intent, lists, pages, API, history), and invalid values."""

from __future__ import annotations

import json
from typing import Any

import httpx
import msgspec
import pytest

from farrier.io.connections.pool import Connection
from farrier.model.node.details import DETAILS, LISTED, REMOVABLE
from tests.integration.cli.conftest import Prompt
from tests.support import pg
from tests.support.details import REFUSED, VALUES
from tests.support.site import Site

REGISTER = "SELECT farrier.register_node('gpu-1', details => $1::jsonb)"
OF_THE_NODE = "SELECT farrier.details_of(n)::text FROM farrier.nodes n WHERE name = 'gpu-1'"


@pytest.fixture
def farrier(db: pg.Database) -> Prompt:
    return Prompt(FARRIER_DATABASE_DSN=db.dsn)


async def details(conn: Connection) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(await conn.fetchval(OF_THE_NODE))
    return found


def options(name: str) -> list[str]:
    """The command's options for the value."""
    option = f"--{name.replace('_', '-')}"
    match VALUES[name]:
        case bool() as value:
            return [option if value else f"--no-{option[2:]}"]
        case list() as values:
            return [word for value in values for word in (option.removesuffix("s"), value)]
        case dict() as pairs:
            return [word for pair in pairs.items() for word in (option.removesuffix("s"), "=".join(pair))]
        case value:
            return [option, value]


ALL_OPTIONS = [word for name in VALUES for word in options(name)]


def test_every_detail_has_a_test_value() -> None:
    assert set(VALUES) == set(DETAILS)


async def test_a_service_registers_a_node_with_each_detail(conn: Connection) -> None:
    await conn.execute(REGISTER, json.dumps(VALUES))
    assert await details(conn) == VALUES


async def test_the_command_line_registers_a_node_with_each_detail_and_shows_it(farrier: Prompt) -> None:
    await farrier("node", "add", "gpu-1", *ALL_OPTIONS)
    shown = (await farrier("node", "show", "gpu-1", "--json")).json
    assert {name: shown[name] for name in VALUES} == VALUES
    text = (await farrier("node", "show", "gpu-1")).out
    for name, value in VALUES.items():
        match value:
            case bool():
                assert name.replace("_", "-") in text
            case str():
                assert value in text
            case values:
                assert all(value in text for value in values)


async def test_intent_set_changes_each_detail_and_history_has_both_values(site: Site) -> None:
    machine = await site.register("gpu-1")
    for name, value in VALUES.items():
        before = await details(site.conn)
        await machine.asked("set", **{name: value})
        assert await details(site.conn) == before | {name: value}
        ((source, target),) = await site.conn.fetch(
            "SELECT from_value, to_value FROM farrier.history WHERE layer = $1", f"details.{name}"
        )
        assert source != target
        if name in REMOVABLE:
            await machine.asked("set", unset=[name])
            assert (await details(site.conn))[name] is None


async def test_lists_and_pages_show_each_detail_and_filter_by_it(
    farrier: Prompt, web: httpx.AsyncClient, conn: Connection
) -> None:
    await farrier("node", "add", "gpu-1", *ALL_OPTIONS)
    await farrier("node", "add", "gpu-2")
    for name in LISTED:
        value = VALUES[name]
        listed = (await farrier("node", "list", f"--{name}", value)).out
        assert value in listed and name.upper() in listed and "gpu-2" not in listed
        assert not (await farrier("node", "list", "--json", f"--{name}", "other")).json
        nodes = (await web.get(f"/api/v1/nodes?{name}={value}&{name}=other")).json()["nodes"]
        assert [(node["name"], node[name]) for node in nodes] == [("gpu-1", value)]
        assert not (await web.get(f"/api/v1/nodes?{name}=other")).json()["nodes"]
        page = (await web.get(f"/?{name}={value}")).text
        assert f'<a href="?{name}={value}">{value}</a>' in page and "gpu-2" not in page
        assert value in (await web.get("/nodes/gpu-1")).text
        assert await conn.fetchval(f"SELECT {name} FROM farrier.node_inventory WHERE name = 'gpu-1'") == value


async def test_an_invalid_detail_is_refused_with_a_message(site: Site) -> None:
    machine = await site.register("gpu-1")
    before = await details(site.conn)
    for name, value, said in REFUSED:
        with pytest.raises(pg.PostgresError) as registered:
            await site.conn.execute(REGISTER.replace("gpu-1", "gpu-9"), json.dumps({name: value}))
        with pytest.raises(pg.PostgresError) as asked:
            await machine.tell("set", **{name: value})
        for refusal in (registered.value, asked.value):
            assert refusal.sqlstate == "FR400" and said in str(refusal), (name, value)
    assert await details(site.conn) == before


async def test_details_of_a_registration_override_its_parameters(conn: Connection) -> None:
    given = '{"site": "dc-2"}'
    await conn.execute("SELECT farrier.register_node('gpu-1', site => 'dc-1', details => $1::jsonb)", given)
    assert (await details(conn))["site"] == "dc-2"
