"""Rights on segments: clients insert intents and allocate, readers read, and the loop's role suffices for the loop."""

from __future__ import annotations

from datetime import timedelta

import pytest

from farrier.io.connections.pool import Connection
from tests.support import pg, segments
from tests.support.segments import Lan

FORBIDDEN = "42501"
ASK = "SELECT farrier.allocate_address('lan', 'a')"
GIVE = "SELECT farrier.release_address('lan', '10.0.0.1', 'a')"
LIST = "SELECT * FROM farrier.list_addresses('lan')"
WRITES = (
    "UPDATE farrier.segment_addresses SET owner = 'b'",
    "UPDATE farrier.segment_usage SET allocated = 0",
    "DELETE FROM farrier.segment_free",
    "UPDATE farrier.network_segments SET state = 'gone'",
    "SELECT farrier.put_back(1, '10.0.0.0/24', '10.0.0.1')",
    "SELECT farrier.open_prefix(s, '10.1.0.0/24') FROM farrier.network_segments s",
)


async def may(conn: Connection, role: str, statement: str) -> bool:
    transaction = conn.transaction()
    await transaction.start()
    try:
        await conn.execute(f"SET LOCAL ROLE {role}")
        await conn.execute(statement)
    except pg.PostgresError as refused:
        if refused.sqlstate != FORBIDDEN:
            raise
        return False
    else:
        return True
    finally:
        await transaction.rollback()


@pytest.mark.parametrize(
    ("role", "allowed"),
    [
        ("farrier_intents", [ASK, GIVE, LIST]),
        ("farrier_reader", [LIST]),
        ("farrier_agent", []),
    ],
)
async def test_each_role_may_make_its_own_calls_and_no_other(lan: Lan, role: str, allowed: list[str]) -> None:
    await lan.ready()
    assert [each for each in (ASK, GIVE, LIST, *WRITES) if await may(lan.conn, role, each)] == allowed


async def test_the_rights_are_the_same_after_they_were_granted_anew(lan: Lan) -> None:
    await lan.ready()
    await lan.conn.execute("SELECT farrier.grant_rights()")
    assert [each for each in (ASK, GIVE, LIST, *WRITES) if await may(lan.conn, "farrier_intents", each)] == [
        ASK,
        GIVE,
        LIST,
    ]


async def test_the_whole_life_of_a_segment_runs_as_the_controllers_role(every_db: pg.Database) -> None:
    async with every_db.connect() as owner:
        await owner.execute("SELECT farrier.set_pool('vlan:ams', 100, 101)")
    await every_db.set_default("role", "farrier_controller")
    async with segments.opened(every_db, period=timedelta(0)) as lan:
        assert await lan.conn.fetchval("SELECT current_user") == "farrier_controller"
        made = await lan.ready()
        await lan.ask("lan", "update", add_prefixes=["2001:db8::/64"])
        await lan.settle()
        assert (await lan.segment(made))["prefixes"] == ["10.0.0.0/24", "2001:db8::/64"]
        address = await lan.take("a")
        await lan.ask("lan", "delete", drain=True)
        await lan.settle()
        await lan.give("a", address)
        await lan.settle()
        assert await lan.state(made) == "gone"
