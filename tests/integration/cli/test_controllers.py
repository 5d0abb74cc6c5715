"""`farrier controllers`: which controllers have which shards, and which shards are free, as a table and as JSON."""

from __future__ import annotations

from datetime import timedelta

import farrier as farrier_package
from farrier.io.calls.doors import PostgresDoor
from farrier.model.loop.controllers import SHARDS
from farrier.model.loop.doors import DoorKind
from tests.integration.cli.conftest import Prompt
from tests.support import owners, pg


def rows(out: str) -> list[list[str]]:
    """The words of each row of the table, without its headings."""
    return [line.split() for line in out.splitlines()[1:]]


async def test_shards_without_a_controller_are_listed_by_kind_before_any_has_begun(farrier: Prompt) -> None:
    found = (await farrier("controllers", "--json")).json
    assert {each["name"] for each in found} == {None}
    assert [each["shards"] for each in found if each["kind"] == "node"] == [SHARDS]
    assert ["none", "node", str(SHARDS)] in rows((await farrier("controllers")).out)


async def test_a_controller_is_listed_with_its_release_renewal_and_shards_of_each_kind(
    farrier: Prompt, db: pg.Database
) -> None:
    async with db.pool(size=1) as connections:
        id_ = await owners.joined(connections, "rack-1", {"maas_region": 0.0, "node": 90.0}, shards=range(60))
    own = [each for each in (await farrier("controllers", "--json")).json if each["name"] == "rack-1"]
    assert {(each["id"], each["state"], each["release"]) for each in own} == {
        (str(id_), "alive", farrier_package.__version__)
    }
    assert [(each["kind"], each["shards"], each["lag"]) for each in own] == [("maas_region", 60, 0), ("node", 60, 90)]
    out = (await farrier("controllers")).out
    assert f"rack-1 ({id_.hex[:8]})" in out and farrier_package.__version__ in out
    assert ["node", "60", "1m", "30s"] in [row[-4:] for row in rows(out)]
    assert ["none", "node", str(SHARDS - 60)] in rows(out)
    assert (await farrier("controllers", "-o", "name")).out.split() == ["rack-1", "none"]
    assert (await farrier("controllers", "--sort-by", "-lag", "-o", "jsonpath=$[0].kind")).out == "node\n"


async def test_an_expired_controller_is_listed_as_long_as_it_has_shards(farrier: Prompt, db: pg.Database) -> None:
    async with db.pool(size=1) as connections:
        dead = await owners.joined(connections, "rack-1", {"node": 0.0})
        await owners.declared_dead(connections, dead)
    found = (await farrier("controllers", "--json")).json
    assert [(each["state"], each["shards"]) for each in found if each["kind"] == "node"] == [("expired", SHARDS)]


async def test_a_controller_that_is_not_renewed_is_listed_as_out_of_touch(farrier: Prompt, db: pg.Database) -> None:
    async with db.pool(size=1) as connections:
        await owners.joined(connections, "rack-1", {"node": 0.0})
    await db.advance(timedelta(seconds=8))
    assert "out of touch" in (await farrier("controllers")).out


async def test_doors_are_listed_beside_controllers(farrier: Prompt, db: pg.Database) -> None:
    async with db.pool(size=1) as connections:
        door = PostgresDoor(connections, DoorKind.AGENTS, "door-1")
        door.reached()
        await door.beat()
    (own,) = [each for each in (await farrier("controllers", "--json")).json if each["name"] == "door-1"]
    assert (own["id"], own["role"], own["state"]) == (str(door.id), "door of agents", "alive")
    assert own["reached_at"] is not None and own["kind"] is None
    await db.advance(timedelta(minutes=2))
    out = (await farrier("controllers")).out
    assert f"door-1 ({door.id.hex[:8]})" in out and "door of agents" in out and "silent" in out and "2m" in out
