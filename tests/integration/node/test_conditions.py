"""Conditions: every recorded fact that decides takes a node out of service, and every hold has its own key."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from msgspec.structs import replace

from farrier.io.queries.lists import PostgresQueries
from farrier.model.advice.diagnosis import notes
from farrier.model.advice.explanation import explain
from farrier.model.machine.bmc import PowerState
from farrier.model.node.limits import Limits
from tests.support.site import MINUTE, Machine, Site

# Within this time, farrier reads each BMC.
DUE = timedelta(seconds=91)


async def managed(site: Site) -> Machine:
    """A node in service with an agent and a verified BMC."""
    machine = await (await site.active()).asked("set_bmc", address="https://10.0.9.1", credential="env:BMC")
    await machine.asked("manage")
    await machine.beat()
    assert (await machine.state())[0] == "active" and (await machine.look())["management"] == "manageable"
    return machine


async def test_a_report_that_the_machine_is_not_ok_quarantines_until_it_is_ok(site: Site) -> None:
    machine = await site.active()
    await machine.send_health({"ok": False})
    await site.settled()
    assert ((await machine.state())[0], await machine.quarantine()) == ("quarantined", "agent/not_ok")
    await machine.beat()
    assert ((await machine.state())[0], await machine.conditions()) == ("active", {})


async def test_another_serial_behind_the_bmc_quarantines_until_the_machine_responds_again(site: Site) -> None:
    machine = await managed(site)
    recorded = site.bmc.read_script
    site.bmc.script = site.bmc.read_script = lambda target: replace(recorded(target), serial="SN-9")
    await site.wait(DUE)
    await machine.beat()
    assert ((await machine.state())[0], await machine.quarantine()) == ("quarantined", "identity/another_machine")
    site.bmc.script = site.bmc.read_script = recorded
    for _ in range(6):
        await site.wait(MINUTE)
        await machine.beat()
    assert ((await machine.state())[0], await machine.conditions()) == ("active", {})


async def test_a_read_of_power_off_takes_a_node_with_an_agent_offline_at_once(site: Site) -> None:
    machine = await managed(site)
    site.bmc.power = PowerState.OFF
    await site.wait(DUE)
    assert (await machine.state())[0] == "offline", "the last heartbeat is younger than offline_after"
    await machine.beat()
    await site.wait(MINUTE)
    assert (await machine.state())[0] == "active", "a heartbeat that is newer than the reading proves that it runs"


async def test_the_health_critical_of_a_bmc_is_a_note_that_lists_and_why_show(site: Site) -> None:
    machine = await managed(site)
    recorded = site.bmc.read_script
    site.bmc.read_script = lambda target: replace(recorded(target), health="Critical")
    for _ in range(12):
        await site.wait(MINUTE)
        await machine.beat()
    assert await machine.conditions() == {"bmc/health": "note"}
    page = await PostgresQueries(site.pool).node(machine.name)
    shown = page.rows[0]
    assert "note, bmc/health: the BMC reports the health Critical" in explain(shown, page.now, Limits()).errors
    assert "note, bmc/health: the BMC reports the health Critical" in list(notes(shown))


async def test_each_hold_is_released_by_its_own_key(site: Site) -> None:
    machine = await (await site.active()).asked("quarantine", reason="fans")
    await machine.asked("quarantine", reason="moved to another rack", key="move")
    refused = await machine.ask("release")
    assert refused.status == "rejected" and "key: default or release with key: move" in str(refused.reason)
    await machine.asked("release", key="move")
    assert ((await machine.state())[0], await machine.quarantine()) == ("quarantined", "operator/default")
    await machine.asked("release")
    assert (await machine.state())[0] == "active"


async def test_a_release_without_a_hold_recommends_the_release_of_each_condition(site: Site) -> None:
    machine = await (await site.active()).beat("xid-79")
    refused = await machine.ask("release")
    assert (refused.status, await machine.conditions()) == ("rejected", {"agent/xid-79": "quarantine"})
    assert "no operator holds the node, but conditions keep it out of service" in str(refused.reason)
    assert "release with key: agent/xid-79" in str(refused.reason)


async def test_an_alert_that_an_operator_released_stays_a_note_until_it_ends(site: Site) -> None:
    machine = await (await site.active()).beat("xid-79")
    assert (await machine.ask("release", key="agent/xid-79")).status == "rejected", "a reason is required"
    await machine.asked("release", key="agent/xid-79", reason="known, harmless")
    assert ((await machine.state())[0], await machine.conditions()) == ("active", {"agent/xid-79": "note"})
    await machine.beat()
    assert await machine.conditions() == {}


async def test_a_release_of_one_of_several_causes_leaves_the_others_and_a_wrong_key_changes_nothing(site: Site) -> None:
    machine = await (await site.active()).beat("xid-79")
    for key in ("fans", "move"):
        await machine.asked("quarantine", reason="it", key=key)
    held = {"agent/xid-79": "quarantine", "operator/fans": "quarantine", "operator/move": "quarantine"}
    assert await machine.conditions() == held, "no cause replaces another"
    refused = await machine.ask("release", key="fan")
    assert (refused.status, await machine.conditions()) == ("rejected", held)
    assert "nothing named fan keeps the node out of service; expected one of: agent/xid-79, fans, move" in str(
        refused.reason
    )
    await machine.asked("release", key="move")
    assert await machine.conditions() == {name: effect for name, effect in held.items() if name != "operator/move"}
    assert (await machine.state())[0] == "quarantined"


async def test_another_message_of_an_alert_does_not_wake_the_node(site: Site) -> None:
    def warm(degrees: int, *, blocks: bool = False) -> dict[str, Any]:
        return {"alerts": [{"id": "hot", "message": f"{degrees} °C", "blocks_scheduling": blocks}]}

    machine = await site.active()
    await machine.report(warm(80))
    for report, wakes in ((warm(81), 0), (warm(82, blocks=True), 1)):
        async with site.conn.transaction():
            await machine.send_health(report)
            assert await site.conn.fetchval("SELECT count(*) FROM farrier.wakes") == wakes
    message = await site.conn.fetchval("SELECT message FROM farrier.node_conditions WHERE id = 'hot'")
    assert message == "82 °C"


async def test_control_characters_of_an_alert_become_spaces(site: Site) -> None:
    machine = await site.active()
    await machine.report({"alerts": [{"id": "disk\nfull", "message": "\x1b[2Jat\t95 %"}]})
    row = await site.conn.fetchrow("SELECT id, message FROM farrier.node_conditions WHERE source = 'agent'")
    assert row is not None and tuple(row) == ("disk full", " [2Jat 95 %")


async def test_a_node_has_at_most_a_hundred_holds(site: Site) -> None:
    machine = await (await site.active()).asked("quarantine", reason="it", key="k0")
    await site.conn.execute(
        """
        INSERT INTO farrier.node_conditions (node, source, id, requested, effect)
        SELECT $1, 'operator', 'k' || nr, 'quarantine', 'quarantine' FROM generate_series(1, 99) nr
        """,
        machine.id,
    )
    refused = await machine.ask("quarantine", reason="it", key="one-more")
    assert refused.status == "rejected" and "has 100 holds already" in str(refused.reason)
    assert (await machine.ask("quarantine", reason="another", key="k7")).status == "accepted"
