"""What conditions of monitors do to nodes: a monitor quarantines within its brake, and a lost one decides nothing."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from tests.integration.node.test_brake import beat, fleet, later, status_of
from tests.support.monitors import NAME, grant, report
from tests.support.site import MINUTE, Machine, Site

LASTS = 30 * MINUTE
HELD = "SELECT source, held FROM farrier.brakes_holding ORDER BY source"


def fault(machine: Machine, **given: Any) -> dict[str, Any]:
    return {"node": machine.name, "id": "gpu/xid-79", "target": "GPU-5e", "effect": "quarantine", **given}


async def told(site: Site, *reports: dict[str, Any]) -> None:
    """Let the monitor report, and the loop answer."""
    assert {verdict for verdict, _ in await report(site.conn, *reports)} == {"taken"}
    await site.settled()


async def quarantined(site: Site) -> Machine:
    """A node that a monitor has taken out of service."""
    await grant(site.conn, effect="quarantine", lasts=LASTS)
    machine = await site.active()
    await told(site, fault(machine))
    assert ((await machine.state())[0], await machine.conditions()) == (
        "quarantined",
        {"monitor:am/gpu/xid-79": "quarantine"},
    )
    return machine


async def stays(machine: Machine, status: str, over: timedelta) -> None:
    """Let time pass with a living agent; the node keeps its status."""
    for _ in range(over // (5 * MINUTE)):
        await machine.site.wait(5 * MINUTE)
        await machine.beat()
        assert (await machine.state())[0] == status


async def test_a_note_changes_no_status_and_a_stronger_report_does(site: Site) -> None:
    await grant(site.conn, effect="quarantine")
    machine = await site.active()
    await told(site, fault(machine, effect="note"))
    assert (await machine.state())[0] == "active"
    await told(site, fault(machine))
    assert (await machine.state())[0] == "quarantined"
    await told(site, fault(machine, effect="note"))
    assert (await machine.state())[0] == "active"


async def test_a_condition_that_expired_keeps_a_node_in_quarantine_until_its_monitor_speaks(site: Site) -> None:
    machine = await quarantined(site)
    await stays(machine, "quarantined", 2 * LASTS)
    await told(site, fault(machine))
    assert (await machine.state())[0] == "quarantined"
    await told(site, fault(machine, ends=True))
    assert ((await machine.state())[0], await machine.conditions()) == ("active", {})


async def test_an_operator_releases_an_unknown_condition_by_its_name_and_a_reason(site: Site) -> None:
    machine = await quarantined(site)
    await stays(machine, "quarantined", 2 * LASTS)
    name = "monitor:am/gpu/xid-79/GPU-5e"
    assert (await machine.ask("release", key=name)).status == "rejected", "a reason is required"
    await machine.asked("release", key=name, reason="the exporter was removed")
    assert ((await machine.state())[0], await machine.conditions()) == ("active", {})


async def test_a_note_of_a_lost_monitor_is_released_by_its_name_and_a_living_monitors_note_is_not(site: Site) -> None:
    await grant(site.conn, lasts=LASTS)
    machine = await site.active()
    await told(site, fault(machine, effect="note"))
    name, reason = "monitor:am/gpu/xid-79/GPU-5e", "the exporter was removed"
    assert (await machine.ask("release", key=name, reason=reason)).status == "rejected"
    await stays(machine, "active", 2 * LASTS)
    await machine.asked("release", key=name, reason=reason)
    assert ((await machine.state())[0], await machine.conditions()) == ("active", {})


async def test_a_released_condition_stays_a_note_while_its_monitor_repeats_it(site: Site) -> None:
    machine = await quarantined(site)
    await machine.asked("release", key="monitor:am/gpu/xid-79/GPU-5e", reason="known, harmless")
    for _ in range(3):
        await site.wait(5 * MINUTE)
        await machine.beat()
        await told(site, fault(machine))
        assert ((await machine.state())[0], await machine.conditions()) == ("active", {"monitor:am/gpu/xid-79": "note"})
    await told(site, fault(machine, ends=True), fault(machine, target="GPU-6f"))
    assert (await machine.state())[0] == "quarantined"


async def test_the_nodes_of_a_revoked_monitor_stay_out_of_service_until_they_are_released(site: Site) -> None:
    machine = await quarantined(site)
    await site.conn.execute("SELECT farrier.revoke_monitor($1)", NAME)
    await site.settled()
    await stays(machine, "quarantined", 10 * MINUTE)
    await machine.asked("release", key="monitor:am/gpu/xid-79/GPU-5e", reason="the monitor is gone")
    assert ((await machine.state())[0], await machine.conditions()) == ("active", {})


async def test_a_monitor_that_accuses_a_whole_site_is_held_by_the_brake_of_its_grant(site: Site) -> None:
    await grant(site.conn, effect="quarantine", brake_share=0.2, brake_at_least=2, lasts=LASTS)
    machines = await fleet(site, 10)
    await told(site, *(fault(machine) for machine in machines))
    await later(site, MINUTE)
    assert (await status_of(machines)).count("active") >= 8
    assert [tuple(row) for row in await site.conn.fetch(HELD)] == [("monitor:am", 10)]


async def test_the_brake_counts_each_monitor_on_its_own(site: Site) -> None:
    for name in ("am", "fabric"):
        await grant(site.conn, name, effect="quarantine", brake_share=0.2, brake_at_least=3)
    machines = await fleet(site, 10)
    for name, accused in (("am", machines[:2]), ("fabric", machines[2:4])):
        await report(site.conn, *(fault(machine) for machine in accused), monitor=name)
        await site.settled()
    assert await status_of(machines) == ["quarantined"] * 4 + ["active"] * 6


async def test_a_held_condition_that_expires_takes_no_node_out_of_service(site: Site) -> None:
    await grant(site.conn, effect="quarantine", brake_share=0.1, brake_at_least=2, lasts=5 * MINUTE)
    machines = await fleet(site, 6)
    await told(site, *(fault(machine) for machine in machines))
    before = await status_of(machines)
    assert "active" in before
    for _ in range(10):
        await later(site, MINUTE)
        await beat(machines)
    assert (await status_of(machines), await site.conn.fetch(HELD)) == (before, [])
