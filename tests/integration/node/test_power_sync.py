"""Reads of power on the real loop: beside all other work, with failures recorded, and counted across crashes."""

from __future__ import annotations

from typing import Any

import anyio
import msgspec
import pytest
from msgspec.structs import replace

from farrier.model.machine.bmc import BmcError, BmcFailure, BmcReading, BmcTarget, PowerState
from tests.support import pg
from tests.support import site as sites
from tests.support.fake_bmc import READING
from tests.support.loop import PATIENCE
from tests.support.site import HOUR, MINUTE, SECOND, Machine, Site

# Within this time each node's power is read.
DUE = 91 * SECOND
LEASE = 15 * SECOND

UNREACHABLE = BmcError(BmcFailure.UNREACHABLE, "no route")


async def outcome(machine: Machine) -> dict[str, Any]:
    """The outcome of the node's last run."""
    said: dict[str, Any] = msgspec.json.decode((await machine.look())["outcome"])
    return said


# --- reads


async def test_power_is_read_regularly_by_one_request_and_leaves_no_history(site: Site) -> None:
    machine = await site.with_bmc()
    before, moves = await machine.bmc(), await machine.moves()
    for _ in range(48):
        await site.wait(MINUTE / 4)
    bmc = await machine.bmc()
    assert len(site.bmc.calls) == 1, "it was verified once"
    assert 11 <= len(site.bmc.reads) <= 12
    assert site.bmc.reads[0].system_path == READING.system_path
    assert bmc["power_at"] > before["power_at"]
    assert await machine.moves() == moves


async def test_a_regular_read_does_not_renew_the_time_of_the_outcome(site: Site) -> None:
    machine = await site.with_bmc()
    told = "SELECT at FROM farrier.outcomes WHERE kind = 'node' AND id = $1"
    await site.wait(MINUTE / 2)
    before = await site.conn.fetchval(told, machine.id)
    await site.wait(DUE)
    assert site.bmc.reads != []
    assert await site.conn.fetchval(told, machine.id) == before


async def test_an_agentless_node_stays_in_service_while_its_bmc_reports_power_on(site: Site) -> None:
    machine = await site.with_bmc(agentless=True)
    await machine.asked("onboard", mode="manual")
    for _ in range(10):
        await site.wait(MINUTE)
    assert (await machine.state())[0] == "active"
    site.bmc.power = PowerState.OFF
    await site.wait(DUE)
    assert (await machine.state())[0] == "offline"
    site.bmc.power = PowerState.ON
    await site.wait(DUE)
    assert (await machine.state())[0] == "active"
    site.bmc.fail(UNREACHABLE)
    for _ in range(10):
        await site.wait(MINUTE)
    assert (await machine.state())[0] == "active", "a silent BMC says nothing of the machine behind it"


# --- reads that confirm


async def version(machine: Machine) -> int:
    """The version of the node's row, which every write increments."""
    written: int = await machine.site.conn.fetchval("SELECT version FROM farrier.nodes WHERE id = $1", machine.id)
    return written


async def behind(machine: Machine) -> None:
    """Return once a read has confirmed the node's stored power without writing the row."""
    await machine.site.wait(2 * MINUTE)  # the first read records what a verification does not
    for _ in range(3):
        written = await version(machine), len(machine.site.bmc.reads)
        await machine.site.wait(DUE)
        if await version(machine) == written[0] and len(machine.site.bmc.reads) > written[1]:
            return
    raise AssertionError("each read was stored")


async def test_reads_that_confirm_what_is_recorded_are_stored_every_ten_minutes(site: Site) -> None:
    machine = await site.with_bmc()
    await site.wait(2 * MINUTE)
    before, reads = await version(machine), len(site.bmc.reads)
    for _ in range(30):
        await site.wait(MINUTE)
    assert len(site.bmc.reads) - reads >= 14
    assert 2 <= await version(machine) - before <= 4
    age = "SELECT farrier.now() - power_at FROM farrier.node_lifecycle WHERE id = $1"
    assert await site.conn.fetchval(age, machine.id) <= 12 * MINUTE


async def test_a_wake_after_a_read_that_confirmed_causes_no_other_read_and_is_deleted(site: Site) -> None:
    machine = await site.with_bmc()
    await behind(machine)
    before, reads = await version(machine), len(site.bmc.reads)
    for _ in range(3):
        await site.conn.execute("SELECT farrier.enqueue('node', $1)", machine.id)
        await site.settled()
    assert (await version(machine), len(site.bmc.reads)) == (before, reads)
    await site.db.until("SELECT NOT EXISTS (SELECT FROM farrier.wakes)")


async def test_an_intent_stores_when_power_was_last_confirmed(site: Site) -> None:
    machine = await site.with_bmc()
    await behind(machine)
    stored = (await machine.bmc())["power_at"]
    await machine.asked("pause", reason="fire drill")
    assert (await machine.bmc())["power_at"] > stored


async def test_a_controller_that_takes_the_node_over_keeps_its_outcome_and_reads_at_once(db: pg.Database) -> None:
    told = "SELECT at FROM farrier.outcomes WHERE kind = 'node' AND id = $1"
    async with sites.opened(db) as site:
        machine = await site.with_bmc(agentless=True)
        await machine.asked("onboard", mode="manual")
        site.bmc.power = PowerState.OFF
        await site.wait(DUE)
        assert (await outcome(machine))["reason"] == "offline: power is off"
        await behind(machine)
        since = await site.conn.fetchval(told, machine.id)
    await db.advance(9 * MINUTE)
    async with sites.opened(db) as site:
        machine = Machine(site, machine.name, machine.id)
        site.bmc.power = PowerState.OFF
        await site.settled()
        assert len(site.bmc.reads) == 1
        assert await site.conn.fetchval(told, machine.id) == since


async def test_after_the_clock_is_set_back_reads_go_on_and_confirmed_power_stays_old(site: Site) -> None:
    machine = await site.with_bmc()
    await site.wait(2 * HOUR)  # so that its verification lies further back than the clock is set
    await behind(machine)
    reads = len(site.bmc.reads)
    await site.conn.execute("SELECT farrier.beat()")
    await site.db.advance(-HOUR)
    await site.conn.execute("SELECT farrier.beat()")
    while await site.conn.fetchval("SELECT more FROM farrier.mend(500)"):
        pass
    await site.settled()
    for _ in range(6):
        await site.wait(MINUTE)
    assert len(site.bmc.reads) - reads >= 3


# --- reads that fail


async def test_a_read_that_fails_is_recorded_and_moves_no_node(site: Site) -> None:
    machine = await (await site.with_bmc()).asked("onboard", mode="manual")
    await (await machine.enroll()).beat()
    known = await machine.bmc()
    site.bmc.fail(UNREACHABLE)
    await site.wait(DUE)
    bmc = await machine.bmc()
    assert (bmc["sync_failure"], bmc["sync_error"], bmc["sync_failures"]) == ("unreachable", "no route", 1)
    assert (bmc["power"], bmc["power_at"]) == (known["power"], known["power_at"])
    assert (await outcome(machine))["reason"] == "power cannot be read (unreachable): no route"
    assert ((await machine.state())[0], (await machine.look())["management"]) == ("active", "manageable")
    assert [m.target for m in await machine.moves("management")] == ["enroll", "verifying", "manageable"]
    site.bmc.recover()
    await site.wait(MINUTE)
    assert "sync_failure" not in await machine.bmc()
    assert (await outcome(machine))["outcome"] == "do_nothing"


async def test_the_outcome_of_a_read_that_repeatedly_fails_keeps_its_first_time(site: Site) -> None:
    machine = await site.with_bmc()
    told = "SELECT at FROM farrier.outcomes WHERE kind = 'node' AND id = $1"
    site.bmc.fail(UNREACHABLE)
    await site.wait(DUE)
    since, failures = await site.conn.fetchval(told, machine.id), (await machine.bmc())["sync_failures"]
    seen = []
    for _ in range(10):
        await site.wait(6 * MINUTE)
        seen.append(await site.conn.fetchval(told, machine.id))
    assert (await machine.bmc())["sync_failures"] == failures + 10
    assert set(seen) == {since}


async def test_clients_of_sql_see_a_failing_read_while_power_is_read(site: Site) -> None:
    machine = await site.with_bmc()
    seen = "SELECT power, power_failure FROM farrier.node_lifecycle WHERE id = $1"
    site.bmc.fail(UNREACHABLE)
    await site.wait(DUE)
    (row,) = await site.conn.fetch(seen, machine.id)
    assert tuple(row) == ("on", "unreachable")
    # The node is not manageable any more, so the failure of its last read is not shown.
    site.bmc.fail(BmcError(BmcFailure.TLS, "not trusted"))
    await machine.asked("manage")
    (row,) = await site.conn.fetch(seen, machine.id)
    assert row["power_failure"] is None


async def test_a_silent_bmc_does_not_delay_the_reads_of_others(site: Site) -> None:
    dead, well = await site.with_bmc(), await site.with_bmc()
    before, other = (await dead.bmc())["power_at"], (await well.look())["bmc_address"]
    site.bmc.hold(address=(await dead.look())["bmc_address"])
    await site.db.advance(DUE)
    site.wake()
    await site.bmc.called()
    with anyio.fail_after(PATIENCE):
        while other not in {read.address for read in site.bmc.reads}:
            await anyio.lowlevel.checkpoint()
    assert (await dead.bmc())["power_at"] == before, "its read goes on"
    site.bmc.let_go()
    await site.settled()


# --- logins whose result is unknown


async def test_intents_that_cut_reads_short_cannot_hide_logins_from_the_cap(site: Site) -> None:
    machine = await site.with_bmc()
    for cuts in range(1, 4):
        site.bmc.hold()
        if cuts == 1:
            await site.db.advance(DUE)
        else:
            await machine.tell("unpause")
        site.wake()
        await site.bmc.called()
        await machine.tell("pause", reason="fire drill")
        await site.cut_short()
        assert len((await machine.bmc())["tries"]) == cuts
    await machine.asked("unpause")
    assert len(site.bmc.reads) == 3
    await site.wait(5 * MINUTE)
    assert len(site.bmc.reads) == 4


async def crashed_reading(db: pg.Database) -> tuple[str, int]:
    """Crash a process while it reads power; returns name and id of the node."""
    async with sites.opened(db, crash=True) as site:
        machine = await site.with_bmc()
        site.bmc.hold()
        await db.advance(DUE)
        site.wake()
        await site.bmc.called()
    await db.advance(LEASE)
    return machine.name, machine.id


async def test_a_read_that_a_crash_cut_off_counts_before_the_next_one_is_sent(db: pg.Database) -> None:
    name, id_ = await crashed_reading(db)
    async with sites.opened(db) as site:
        machine = Machine(site, name, id_)
        site.bmc.hold()
        site.wake()
        await site.bmc.called()
        assert len((await machine.bmc())["tries"]) == 1, "the login is counted before the BMC is called"
        site.bmc.let_go()
        await site.settled()
        assert len(site.bmc.reads) == 1


async def test_repeated_crashes_do_not_exceed_the_login_cap(db: pg.Database) -> None:
    """Each process dies in the middle of a read that the BMC refuses."""
    await crashed_reading(db)
    reads = 1
    for _ in range(6):
        async with sites.opened(db, crash=True) as site:
            site.bmc.hold()
            await site.held_or_settled()
            reads += len(site.bmc.reads)
        await db.advance(LEASE)
    assert reads <= 3
    async with sites.opened(db) as site:
        await site.settled()
        assert site.bmc.logins == 0
        await site.wait(5 * MINUTE)
        assert len(site.bmc.reads) == 1


# --- a renamed system

RENAMED = "/redfish/v1/Systems/Self"


def renamed(site: Site, error: BmcError, **found: Any) -> None:
    """New firmware: the former path of the system responds with this error, and the search finds another path."""

    def read(target: BmcTarget) -> BmcReading:
        if target.system_path != RENAMED:
            raise error
        return replace(READING, system_path=RENAMED, power=site.bmc.power)

    site.bmc.read_script = read
    site.bmc.script = lambda _target: replace(READING, **{"system_path": RENAMED, "power": site.bmc.power} | found)


@pytest.mark.parametrize("failure", [BmcFailure.UNSUPPORTED, BmcFailure.PROTOCOL])
async def test_a_renamed_system_is_found_again_by_the_regular_read(site: Site, failure: BmcFailure) -> None:
    machine = await site.with_bmc()
    renamed(site, BmcError(failure, "HTTP 404"))
    site.bmc.power = PowerState.OFF
    await site.wait(DUE)
    bmc = await machine.bmc()
    assert (bmc["system_path"], bmc["power"], bmc.get("sync_failure")) == (RENAMED, "off", None)
    await machine.asked("set_power", power="on")


async def test_a_path_that_leads_to_another_system_now_is_left_for_that_of_the_machine(site: Site) -> None:
    machine = await site.with_bmc()
    renamed(site, BmcError(BmcFailure.IDENTITY_MISMATCH, "another machine responds"))
    await site.wait(DUE)
    assert (await machine.bmc())["system_path"] == RENAMED


@pytest.mark.parametrize("found", [{"serial": "SN-9", "uuid": None}, {"serial": None, "uuid": None}])
async def test_a_system_whose_identity_is_not_proven_does_not_become_the_machine(
    site: Site, found: dict[str, Any]
) -> None:
    machine = await site.with_bmc()
    renamed(site, BmcError(BmcFailure.UNSUPPORTED, "HTTP 404"), **found)
    await site.wait(DUE)
    bmc = await machine.bmc()
    assert (bmc["system_path"], bmc["sync_failure"], bmc["sync_error"]) == (
        READING.system_path,
        "unsupported",
        "HTTP 404",
    )
