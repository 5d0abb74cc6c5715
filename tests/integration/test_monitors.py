"""Monitors: what a grant allows, which reports are taken, and that every other report is counted and listed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from farrier.io.connections.pool import Connection
from tests.support import pg
from tests.support.monitors import grant, logged_in, refused, report, standing

NOTHING = "nothing ended: monitor:am states no condition"
EXPECTED = "expected the id and the target of one of: gpu/xid-79/GPU-5e"
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
XID: dict[str, Any] = {"node": "gpu-1", "id": "gpu/xid-79", "target": "GPU-5e", "effect": "quarantine"}
WAKES = "SELECT count(*) FROM farrier.wakes"
SEEN = "SELECT seen_at FROM farrier.node_conditions"
SERIAL = """
    UPDATE farrier.nodes SET bmc = bmc || jsonb_build_object('serial', $2::text, 'manufacturer', $3::text)
     WHERE name = $1
"""


@pytest.fixture
async def conn(db: pg.Database) -> AsyncIterator[Connection]:
    """A database with two nodes, and no loop."""
    async with db.connect() as connection:
        await connection.execute(
            "SELECT farrier.register_node(n, site => 'ams') FROM unnest('{gpu-1,gpu-2}'::text[]) n"
        )
        await connection.execute("DELETE FROM farrier.wakes")
        yield connection


async def refusal(conn: Connection, statement: str, *arguments: Any) -> str:
    """SQLSTATE and text of the refusal, without the hint."""
    with pytest.raises(pg.PostgresError) as error:
        await conn.fetch(statement, *arguments)
    return f"{error.value.sqlstate} {error.value}".partition("\n")[0]


# --- grants


async def test_a_login_states_and_ends_conditions_only_with_a_grant(db: pg.Database, conn: Connection) -> None:
    async with logged_in(db, conn) as (monitor, login):
        state = "SELECT verdict FROM farrier.set_condition('gpu-1', 'gpu/hot', message => '91 C')"
        assert await refusal(monitor, state) == f"FR403 login {login} is the login of no monitor"
        await grant(conn, login=login)
        assert await monitor.fetchval(state) == "taken"
        assert await standing(conn) == [("gpu-1", "gpu/hot", "", "note", True)]
        for said in (None, "nothing ended: monitor:am states no condition gpu/hot of node gpu-1"):
            ended = await monitor.fetchrow("SELECT * FROM farrier.end_condition('gpu-1', 'gpu/hot')")
            assert ended is not None and ended["verdict"] == "taken"
            assert (ended["reason"] or "").partition(";")[0] == (said or "")
            assert await standing(conn) == []
        batch = await monitor.fetch("""SELECT * FROM farrier.report_conditions('[{"node": "gpu-2", "id": "a"}]')""")
        assert [tuple(each) for each in batch] == [(1, "taken", None)]
        for reserved in (
            "SELECT farrier.report_as('am', '[]')",
            "TABLE farrier.node_conditions",
            "TABLE farrier.nodes",
        ):
            assert (await refusal(monitor, reserved)).startswith("42501")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"login": "nobody"}, "FR404 login 'nobody' does not exist"),
        ({"effect": "reboot"}, "FR400 monitor 'am': expected a name of at most 63 letters"),
        ({"lasts": timedelta(seconds=1)}, "FR400 monitor 'am'"),
        ({"lasts": timedelta(days=31)}, "FR400 monitor 'am'"),
        ({"brake_share": 2}, "FR400 monitor 'am'"),
        ({"ids": []}, "FR400 expected one or more patterns of sites and of IDs"),
        ({"sites": [None]}, "FR400 expected one or more patterns of sites and of IDs"),
        ({"labels": '{"host": "x"}'}, "FR400 labels must be a JSON object of texts"),
        ({"labels": '{"node": 1}'}, "FR400 labels must be a JSON object of texts"),
    ],
)
async def test_a_grant_that_means_nothing_is_refused(conn: Connection, given: dict[str, Any], said: str) -> None:
    with pytest.raises(pg.PostgresError) as error:
        await grant(conn, **given)
    assert f"{error.value.sqlstate} {error.value}".startswith(said)
    assert await conn.fetchval("SELECT count(*) FROM farrier.monitors") == 0


async def test_two_monitors_do_not_share_a_login(db: pg.Database, conn: Connection) -> None:
    async with logged_in(db, conn) as (_, login):
        await grant(conn, login=login)
        with pytest.raises(pg.PostgresError, match="is the login of another monitor"):
            await grant(conn, "other", login=login)
        await grant(conn, login=login, effect="quarantine")
        assert await conn.fetchval("SELECT effect FROM farrier.monitors") == "quarantine"


@pytest.mark.parametrize(
    ("patterns", "value", "fits"),
    [
        (["*"], "", True),
        (["gpu/*"], "gpu/xid-79", True),
        (["gpu/xid-??"], "gpu/xid-7", False),
        (["a", "disk_*"], "disk-1", False),
        (["50%*"], "500", False),
        (["back\\*"], "back\\slash", True),
    ],
)
async def test_a_pattern_has_two_special_characters(
    conn: Connection, patterns: list[str], value: str, fits: bool
) -> None:
    assert await conn.fetchval("SELECT farrier.fits_pattern($1, $2)", value, patterns) is fits


# --- reports


@pytest.mark.parametrize(
    ("wrong", "verdict", "reason"),
    [
        ({"node": "gpu-9"}, "unmapped", "no node is 'gpu-9'"),
        ({"node": "gpu-\x9f9"}, "unmapped", "no node is 'gpu- 9'"),
        ({"node": None}, "unmapped", "the report names no node"),
        ({"id": None}, "unmapped", "the report names no condition"),
        ({"by": "serial"}, "unmapped", "no node is 'gpu-1'"),
        ({"id": "disk/full"}, "forbidden", "monitor am may not state the condition 'disk/full'"),
        ({"node": "elsewhere"}, "forbidden", "monitor am may not state conditions of nodes of site 'fra'"),
        ({"effect": "quarantine"}, "forbidden", "monitor am may request at most the effect note, not quarantine"),
        ({"effect": "reboot"}, "malformed", "the effect must be note or quarantine, not 'reboot'"),
        ({"message": "a\x1b[2J"}, "malformed", "the message must not have control characters"),
        ({"target": "a\nb"}, "malformed", "the target must not have control characters"),
        ({"target": "x" * 129}, "malformed", "the target must have 0 to 128 characters, got 129"),
        ({"expires_at": "2000-01-01T00:00:00Z"}, "malformed", "expires_at must be within the next 30 days"),
    ],
)
async def test_a_report_that_is_not_taken_is_one_line_and_is_counted_and_listed(
    conn: Connection, wrong: dict[str, Any], verdict: str, reason: str
) -> None:
    await conn.execute("SELECT farrier.register_node('elsewhere', site => 'fra')")
    await grant(conn, ids=["gpu/*"], sites=["ams"])
    good, bad = {"node": "gpu-2", "id": "gpu/hot"}, {"node": "gpu-1", "id": "gpu/hot"} | wrong
    for _ in range(2):
        taken, (given, said) = await report(conn, good, bad)
        assert taken[0] == "taken"
        assert (given, str(said).startswith(reason), "\n" in str(said)) == (verdict, True, False)
    assert [each[0] for each in await standing(conn)] == ["gpu-2"]
    ((_, _, listed, times),) = await refused(conn)
    assert (listed, times) == (verdict, 2)
    assert await conn.fetchval("SELECT refused FROM farrier.monitors") == 2


async def test_the_newest_hundred_refusals_of_a_monitor_are_listed_and_all_are_counted(conn: Connection) -> None:
    await grant(conn)
    for first in (0, 60):
        await report(conn, *({"node": f"lost-{number:03}", "id": "x"} for number in range(first, first + 60)))
    listed = [each[0] for each in await refused(conn)]
    assert len(listed) == 100
    assert set(listed) >= {f"lost-{number:03}" for number in range(60, 120)}
    assert await conn.fetchval("SELECT refused FROM farrier.monitors") == 120


async def test_a_resolved_report_takes_its_refusal_from_the_list(conn: Connection) -> None:
    await grant(conn)
    lost = {"node": "lost", "id": "gpu/hot"}
    assert [each[0] for each in await report(conn, lost)] == ["unmapped"]
    assert [each[0] for each in await report(conn, lost | {"ends": True})] == ["unmapped"]
    assert await refused(conn) == []
    assert await conn.fetchval("SELECT refused FROM farrier.monitors") == 1


async def test_an_end_of_a_condition_that_the_node_does_not_have_says_so_and_may_be_repeated(conn: Connection) -> None:
    await grant(conn, effect="quarantine")
    await report(conn, XID, {"node": "gpu-2", "id": "gpu/xid-79"})
    without_target = {"node": "gpu-1", "id": "gpu/xid-79", "ends": True}
    ((verdict, said),) = await report(conn, without_target)
    assert (verdict, said) == ("taken", f"{NOTHING} gpu/xid-79 of node gpu-1; {EXPECTED}")
    assert len(await standing(conn)) == 2
    end = XID | {"ends": True}
    assert await report(conn, end) == [("taken", None)]
    for _ in range(2):
        ((verdict, said),) = await report(conn, end)
        assert verdict == "taken"
        assert str(said).endswith("of node gpu-1; expected none: it has ended, or was never stated")
    assert [each[0] for each in await standing(conn)] == ["gpu-2"]
    assert (await refused(conn), await conn.fetchval("SELECT refused FROM farrier.monitors")) == ([], 0)


async def test_a_node_is_found_by_the_serial_number_of_one_machine(conn: Connection) -> None:
    await grant(conn)
    await conn.execute(SERIAL, "gpu-1", "MT2334X0117", "NVIDIA")
    by_serial = {"node": " mt2334x0117", "by": "serial", "id": "bmc/fan"}
    assert await report(conn, by_serial) == [("taken", None)]
    assert [each[0] for each in await standing(conn)] == ["gpu-1"]
    await conn.execute(SERIAL, "gpu-2", "MT2334X0117", "Supermicro")
    assert await report(conn, by_serial) == [("unmapped", "2 nodes are ' mt2334x0117'")]
    assert [each[0] for each in await standing(conn)] == ["gpu-1"]


async def test_a_label_that_is_an_id_by_chance_names_no_node(conn: Connection) -> None:
    await grant(conn)
    id_ = str(await conn.fetchval("SELECT id FROM farrier.nodes WHERE name = 'gpu-1'"))
    assert [each[0] for each in await report(conn, {"node": id_, "by": "name", "id": "x"})] == ["unmapped"]
    assert await report(conn, {"node": id_, "id": "x"}) == [("taken", None)]


async def test_reports_of_a_node_are_one_wake_and_repeated_reports_are_none(conn: Connection) -> None:
    await grant(conn, effect="quarantine")
    three = [XID | {"target": f"GPU-{number}"} for number in range(3)]
    await report(conn, *three, {"node": "gpu-2", "id": "gpu/hot"})
    assert await conn.fetchval(WAKES) == 2
    await report(conn, *(each | {"message": "again"} for each in three))
    assert await conn.fetchval(WAKES) == 2
    await report(conn, XID | {"target": "GPU-0", "effect": "note"}, XID | {"target": "GPU-1", "ends": True})
    assert await conn.fetchval(WAKES) == 3
    await report(conn, XID | {"target": "GPU-1", "ends": True})
    assert await conn.fetchval(WAKES) == 3


async def test_another_text_is_written_once_a_minute_and_never_so_late_that_the_condition_expires(
    db: pg.Database, conn: Connection
) -> None:
    await db.freeze()
    await grant(conn, lasts=MINUTE)
    hot = {"node": "gpu-1", "id": "gpu/hot"}
    await report(conn, hot)
    began = await conn.fetchval(SEEN)
    await db.advance(timedelta(seconds=20))
    await report(conn, hot | {"message": "91 C"})
    assert await conn.fetchval(SEEN) == began
    for _ in range(6):
        await db.advance(timedelta(seconds=20))
        await report(conn, hot | {"message": "92 C"})
        assert await standing(conn) == [("gpu-1", "gpu/hot", "", "note", True)]
    assert await conn.fetchval("SELECT message FROM farrier.node_conditions") == "92 C"
    await db.advance(MINUTE)
    assert await standing(conn) == [("gpu-1", "gpu/hot", "", "note", False)]


async def test_a_condition_that_is_stated_again_after_its_expiry_wakes_its_node(
    db: pg.Database, conn: Connection
) -> None:
    await grant(conn, lasts=HOUR)
    await report(conn, {"node": "gpu-1", "id": "gpu/hot"})
    await db.advance(2 * HOUR)
    await conn.execute("DELETE FROM farrier.wakes")
    await report(conn, {"node": "gpu-1", "id": "gpu/hot"})
    assert await conn.fetchval(WAKES) == 1
    assert await standing(conn) == [("gpu-1", "gpu/hot", "", "note", True)]


async def test_of_ten_thousand_conditions_the_oldest_notes_end_and_no_quarantine(conn: Connection) -> None:
    await grant(conn, effect="quarantine")
    await report(conn, *(XID | {"target": f"GPU-{number:05}"} for number in range(150)))
    verdicts: dict[str, int] = {}
    for first in (0, 5000):
        notes = ({"node": "gpu-1", "id": "note", "target": f"{number:05}"} for number in range(first, first + 5000))
        for verdict, _ in await report(conn, *notes):
            verdicts[verdict] = verdicts.get(verdict, 0) + 1
    assert verdicts == {"taken": 10000}, "a note that a later note ends is no fault of its report"
    kept = await standing(conn)
    assert [each[1] for each in kept].count("gpu/xid-79") == 150
    assert [each[2] for each in kept if each[1] == "note"] == [f"{number:05}" for number in range(9950, 10000)]
    assert await conn.fetchval("SELECT dropped FROM farrier.condition_drops WHERE source = 'monitor:am'") == 9950


async def test_a_node_full_of_quarantines_refuses_the_next_one(conn: Connection) -> None:
    await grant(conn, effect="quarantine")
    answers = await report(conn, *(XID | {"target": f"GPU-{number:05}"} for number in range(201)))
    assert answers[-1] == ("full", "node gpu-1 has 200 conditions of monitor am, and none is a note")
    assert [each[0] for each in answers[:-1]] == ["taken"] * 200
    assert (await report(conn, XID | {"target": "GPU-00000", "message": "again"})) == [("taken", None)]


@pytest.mark.parametrize("wrong", ["{}", "null", '[{"expires_at": "soon"}]', '[{"ends": "perhaps"}]'])
async def test_reports_of_another_form_are_refused_as_a_whole(conn: Connection, wrong: str) -> None:
    await grant(conn)
    said = await refusal(conn, "SELECT farrier.report_as('am', $1::jsonb)", wrong)
    assert said.startswith("FR400 ")


# --- the end of a monitor


async def test_the_notes_of_a_revoked_monitor_end_and_its_quarantines_are_unknown(conn: Connection) -> None:
    await grant(conn, effect="quarantine")
    await report(conn, XID, {"node": "gpu-2", "id": "gpu/hot"}, {"node": "lost", "id": "x"})
    await conn.execute("UPDATE farrier.node_conditions SET effect = requested")
    await conn.execute("DELETE FROM farrier.wakes")
    await conn.execute("SELECT farrier.revoke_monitor('am')")
    assert await standing(conn) == [("gpu-1", "gpu/xid-79", "GPU-5e", "quarantine", False)]
    assert await conn.fetchval(WAKES) == 2
    assert await refused(conn) == []
    assert await refusal(conn, "SELECT farrier.report_as('am', '[]')") == "FR403 no monitor is named 'am'"
    assert await refusal(conn, "SELECT farrier.revoke_monitor('am')") == "FR404 no monitor is named 'am'"
