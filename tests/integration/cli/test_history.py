"""`farrier node history`: every change once, in order, however many there are."""

from __future__ import annotations

from datetime import timedelta

import pytest

from farrier.errors import ExitCode
from tests.integration.cli.conftest import Prompt
from tests.support import pg

# Changes beyond what one page holds.
MANY = 1200

CHANGES = """
    INSERT INTO farrier.history (kind, id, version, layer, from_value, to_value, at, seconds_in_source, cause, reason,
                                 source, controller, epoch)
    SELECT 'node', n.id, 1 + v, 'status', 'active', 'offline', farrier.now() - interval '1 h' + v * interval '1 ms', 90,
           'timer', 'silent', 'x.py:1', gen_random_uuid(), 1
      FROM farrier.nodes n, generate_series(1, $1::integer) v
"""


@pytest.fixture
async def past(farrier: Prompt, db: pg.Database) -> Prompt:
    """Runs commands, on a database with two nodes, each with more history than one page holds."""
    await db.advance(-timedelta(hours=2))
    for name in ("gpu-2", "gpu-1"):
        await farrier("node", "add", name)
    await db.advance(timedelta(hours=2))
    async with db.connect() as conn:
        await conn.execute(CHANGES, MANY)
    return farrier


async def test_the_history_of_all_nodes_is_one_array_with_each_change_once_in_order_of_time(past: Prompt) -> None:
    told = (await past("node", "history", "--all", "--json")).json
    keys = [(change["at"], change["id"], change["version"], change["layer"]) for change in told]
    assert len(keys) == len(set(keys)) == 2 * (MANY + 3)  # a registration adds three entries, one for each layer
    assert keys == sorted(keys)
    assert (told[-1]["from"], told[-1]["to"], told[-1]["seconds_in_source"]) == ("active", "offline", 90)
    assert {"name", "at", "cause", "reason", "source", "controller"} < set(told[-1])


async def test_the_newest_changes_of_a_node_are_printed_oldest_first(past: Prompt) -> None:
    versions = [change["version"] for change in (await past("node", "history", "gpu-1", "--limit", 3, "--json")).json]
    assert versions == [MANY - 1, MANY, MANY + 1]


async def test_the_whole_history_of_one_node_contains_no_other_node(past: Prompt) -> None:
    told = (await past("node", "history", "gpu-1", "--all", "--json")).json
    assert len(told) == MANY + 3
    assert {change["name"] for change in told} == {"gpu-1"}
    assert [change["at"] for change in told] == sorted(change["at"] for change in told)


async def test_history_is_filtered_by_layer_and_age(past: Prompt, db: pg.Database) -> None:
    layers = (await past("node", "history", "gpu-1", "--layer", "management", "--json")).json
    assert [change["to"] for change in layers] == ["unmanaged"]
    assert len((await past("node", "history", "--all", "--since", "90m", "--json")).json) == 2 * MANY
    moment = (await db.now() - timedelta(minutes=90)).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert len((await past("node", "history", "--all", "--since", moment, "--json")).json) == 2 * MANY
    assert (await past("node", "history", "--all", "--since", "1m", "--json")).json == []


async def test_the_table_has_source_target_duration_and_reason(past: Prompt) -> None:
    heading, line = (await past("node", "history", "gpu-1", "--limit", 1)).out.splitlines()
    assert heading.split() == ["AT", "NAME", "LAYER", "FROM", "TO", "AFTER", "CAUSE", "REASON", "SOURCE"]
    assert line.split()[2:] == ["gpu-1", "status", "active", "offline", "1m", "30s", "timer", "silent", "x.py:1"]


async def test_history_without_a_node_requires_all(farrier: Prompt) -> None:
    assert "give a name, or --all" in (await farrier("node", "history", ends=ExitCode.USAGE)).err


async def test_a_deleted_node_keeps_its_history_under_name_and_id(farrier: Prompt, db: pg.Database) -> None:
    first = (await farrier("node", "add", "gpu-1", "--json")).json["id"]
    async with db.connect() as conn:
        await conn.execute("SET session_replication_role = replica")
        await conn.execute("UPDATE farrier.nodes SET status = 'deleted'")
    assert {change["id"] for change in (await farrier("node", "history", "gpu-1", "--json")).json} == {first}
    second = (await farrier("node", "add", "gpu-1", "--json")).json["id"]
    assert {change["id"] for change in (await farrier("node", "history", "gpu-1", "--json")).json} == {second}
    assert {change["id"] for change in (await farrier("node", "history", first, "--json")).json} == {first}
