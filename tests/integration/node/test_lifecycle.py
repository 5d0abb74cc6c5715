"""Quarantine, release and deletion of nodes; verification through the loop; rows with inconsistent data."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from farrier.model.node.snapshot import TaskType
from tests.support import pg, tokens
from tests.support import site as sites
from tests.support.site import HOUR, MINUTE, SECOND, Machine, Site

TOKEN = tokens.named("token")

# --- quarantine


async def told(machine: Machine, action: str, **params: Any) -> str:
    """Insert an intent that is rejected, and return the reason."""
    answer = await machine.ask(action, **params)
    assert answer.status == "rejected", answer
    return str(answer.reason)


async def test_an_operators_quarantine_is_lifted_by_release_and_not_by_health(site: Site) -> None:
    machine = await (await site.active()).asked("quarantine", reason="being looked at")
    await machine.beat("xid-79")
    await machine.beat()
    assert (await machine.state())[0] == "quarantined"
    await machine.asked("release")
    assert (await machine.state())[0] == "active"


async def test_health_lifts_only_the_quarantine_that_it_caused(site: Site) -> None:
    machine = await (await site.active()).beat("xid-79")
    assert await machine.quarantine() == "agent/xid-79"
    await machine.asked("quarantine", reason="being looked at")
    await machine.beat()
    assert (await machine.state())[0] == "quarantined"


async def test_silence_does_not_lift_a_quarantine_for_health(site: Site) -> None:
    machine = await (await site.active()).beat("xid-79")
    await site.wait(HOUR)
    assert (await machine.state())[0] == "quarantined"


async def test_a_stale_alert_of_a_silent_node_moves_nothing(site: Site) -> None:
    machine = await site.active()
    await site.wait(4 * MINUTE)
    async with site.conn.transaction():  # a report from before the silence, which the loop sees only now
        await site.conn.execute(
            'UPDATE farrier.node_agents SET health = \'{"alerts": [{"id": "hot", "blocks_scheduling": true}]}\''
        )
    await site.wait(MINUTE)
    assert (await machine.state())[0] == "offline"


async def test_release_is_refused_until_health_is_proven_now(site: Site) -> None:
    machine = await (await site.active()).asked("quarantine", reason="x")
    await site.wait(4 * MINUTE)
    assert "no heartbeat" in await told(machine, "release")
    await machine.beat()
    await machine.asked("release")


async def test_an_onboarding_does_not_complete_before_a_hold_is_released(site: Site) -> None:
    machine = await (await site.enrolled()).asked("quarantine", reason="x")
    await machine.asked("cancel")
    await machine.beat()
    await machine.asked("onboard", mode="manual")
    for _ in range(20):
        await site.wait(2 * MINUTE)
        await machine.beat()
    assert (await machine.state())[:2] == ("quarantined", "running"), "an onboarding does not lift an operator's hold"
    await machine.asked("release")
    assert (await machine.state())[:2] == ("active", "completed")


async def test_a_hold_is_lifted_before_any_onboarding_and_the_node_stays_out_of_service(site: Site) -> None:
    machine = await (await site.enrolled()).asked("quarantine", reason="x")
    await machine.asked("cancel")
    released = await machine.ask("release")
    assert released.status == "accepted" and "until it is onboarded or deleted" in str(released.reason)
    assert ((await machine.state())[0], await machine.conditions()) == ("quarantined", {})
    await machine.asked("onboard", mode="manual")
    await machine.beat()
    assert (await machine.state())[0] == "active"


async def test_a_quarantine_survives_a_drain_that_is_cancelled(site: Site) -> None:
    machine = await (await site.active()).asked("quarantine", reason="fire")
    await (await machine.asked("drain")).beat()
    await machine.asked("cancel")
    assert (await machine.state())[0] == "quarantined"
    assert await machine.quarantine() == "operator/default"
    await (await machine.asked("drain")).finish(TaskType.DRAIN)
    assert await machine.quarantine() == "operator/default", "a hold stands until it is released"
    assert "default: fire; submit release with key: default" in await told(machine, "reactivate")
    await machine.asked("release")
    assert (await machine.state())[0] == "retired", "a release moves only a quarantined node"
    await (await machine.asked("reactivate")).beat()
    assert (await machine.state())[0] == "active"


async def test_an_onboarding_that_was_about_to_begin_does_not_lift_a_quarantine(site: Site) -> None:
    machine = await site.register(bootstrap_token="token")
    await machine.ask_together(("onboard", {"mode": "manual"}), ("quarantine", {"reason": "wrong rack"}))
    await (await machine.enroll("token")).beat()
    assert await machine.state() == ("quarantined", "pending", None)


# --- workflows that need MAAS do not begin here


async def test_a_full_decommission_of_a_node_without_maas_id_skips_its_stages_in_maas(site: Site) -> None:
    machine = await (await site.active()).asked("decommission", mode="full_decommission", leave_on=True)
    for type_ in ("RELEASE_ALLOCATIONS", "DRAIN", "CLEANUP_STORAGE", "SCRUB_GPU", "VALIDATE_CLEAN", "UNINSTALL"):
        await machine.finish(TaskType[type_])
    assert (await machine.state())[0] == "deleted"
    stages = await machine.path("decommission_stage")
    skipped = msgspec.json.decode(await site.conn.fetchval("SELECT skipped::text FROM farrier.node_decommissions"))
    assert [s["stage"] for s in skipped] == [s for s in stages if s == "load_site_config" or "maas" in s]


async def test_a_node_whose_machine_only_maas_could_release_is_drained_and_removed_instead(site: Site) -> None:
    """The site of the node has no MAAS. The machine stays in MAAS as it is."""
    machine = await site.register(maas_id="abc123", bootstrap_token="token")
    await (await machine.enroll("token")).beat()
    refused = await machine.ask("decommission", mode="full_decommission")
    assert refused.status == "rejected" and "no MAAS configured; submit drain" in str(refused.reason)
    await (await machine.asked("drain")).finish(TaskType.DRAIN)
    assert (await machine.state())[0] == "retired"
    await (await machine.asked("remove")).finish(TaskType.UNINSTALL)
    assert (await machine.state())[0] == "deleted"


# --- deletion


async def never_active(site: Site, how: str) -> Machine:
    details: dict[str, Any] = {"macs": ["02:00:00:00:00:01"], "maas_id": "abc123"}
    if how == "bootstrap_issued":
        return await site.with_bmc(bootstrap_token="token", **details)
    machine = await site.with_bmc(**details)
    if how == "cancelled":
        await machine.asked("cancel")
    if how == "quarantined":
        await machine.asked("quarantine", reason="x")
    if how == "running":
        await machine.asked("onboard", mode="manual")
    return machine


@pytest.mark.parametrize("how", ["bootstrap_issued", "enrolling", "running", "cancelled", "quarantined"])
async def test_a_node_that_never_was_active_is_deleted_by_the_tables_own_edges(site: Site, how: str) -> None:
    machine = await never_active(site, how)
    calls, before = len(site.bmc.calls), await machine.path()
    await machine.asked("delete")
    assert len(site.bmc.calls) == calls, "its BMC is not touched"
    walk = ["bootstrap_issued", "enrolling", "quarantined", "draining", "retired", "removing", "deleted"]
    assert [*before, *walk[walk.index(before[-1]) + 1 :]] == await machine.path()
    assert {(task["status"], task["result"]) for task in await machine.tasks()} == {("cancelled", '"not_applicable"')}
    assert {task["type"] for task in await machine.tasks()} == {TaskType.DRAIN, TaskType.UNINSTALL}


@pytest.mark.parametrize("how", ["bootstrap_issued", "enrolling"])
async def test_name_and_details_of_a_deleted_node_are_free_again(site: Site, how: str) -> None:
    machine = await never_active(site, how)
    await machine.asked("delete")
    row = await machine.look()
    again = await site.register(
        machine.name,
        macs=["02:00:00:00:00:01"],
        bmc_address=row["bmc_address"],
        bmc_credential="env:B",
        maas_id="abc123",
    )
    assert again.id != machine.id
    assert (await again.state())[0] == "enrolling"
    assert (await machine.state())[0] == "deleted", "its row stays, and its history"
    assert len(await machine.path()) >= 5


async def test_a_deleted_node_accepts_no_intent_token_or_heartbeat(site: Site) -> None:
    machine = await (await site.register(bootstrap_token="token")).asked("delete")
    for statement, sqlstate in (
        ("SELECT farrier.intent('gpu-1', 'drain')", "FR404"),
        (f"SELECT farrier.enroll_agent('{TOKEN}')", "FR403"),
        ("SELECT farrier.issue_bootstrap('gpu-1')", "FR404"),
        ("SELECT farrier.heartbeat('gpu-1', '{}', 'key')", "FR404"),
        (f"SELECT farrier.enqueue('node', {machine.id})", "FR404"),
    ):
        with pytest.raises(pg.PostgresError) as refused:
            await site.conn.execute(statement)
        assert refused.value.sqlstate == sqlstate, statement


async def test_a_node_that_was_in_service_is_not_deleted(site: Site) -> None:
    machine = await (await site.active()).asked("quarantine", reason="x")
    assert "submit drain to retire the node" in await told(machine, "delete")


async def test_a_removed_node_has_no_agent_and_no_wake(site: Site) -> None:
    machine = await (await site.removing()).finish(TaskType.UNINSTALL)
    assert not await site.conn.fetchval("SELECT count(*) FROM farrier.node_agents")
    assert not await site.conn.fetchval("SELECT count(*) FROM farrier.wakes")
    assert (await machine.state())[0] == "deleted"


async def test_a_node_without_its_agent_is_not_reactivated_but_installed_again(site: Site) -> None:
    machine = await site.retired()
    await site.conn.execute("DELETE FROM farrier.node_agents")
    assert "agent of this node was removed" in await told(machine, "reactivate")
    await (await (await machine.asked("onboard", mode="manual")).enroll()).beat()
    assert (await machine.state())[0] == "active"


# --- verification through the loop


async def test_a_verification_that_a_crash_cut_off_is_counted_and_begun_again(db: pg.Database) -> None:
    """Four controllers crash in a login at one BMC that refuses it; there is no fourth login within five minutes."""
    logins = 0
    for life in range(4):
        async with sites.opened(db, crash=True) as site:
            machine = sites.Machine(site, "gpu-1", 1) if life else await site.with_bmc("gpu-1", auto_manage=False)
            site.bmc.hold()
            if life:
                await site.db.advance(16 * SECOND)  # the lease of the dead controller
                site.wake()
            else:
                await machine.tell("manage")
            if life < 3:
                await site.bmc.called()
                logins += len(site.bmc.calls)
            else:
                await site.settled()
                assert not site.bmc.calls
                assert len((await machine.bmc())["tries"]) == logins == 3
                assert (await machine.look())["management"] == "enroll"


# --- rows with inconsistent data


@pytest.mark.parametrize(
    "damage",
    [
        "bmc = '{\"tries\": 5}'",
        "bmc = '[]'",
        "status = 'dancing'",
        "management = 'dancing'",
    ],
)
async def test_an_inconsistent_row_is_an_error_only_of_its_node(db: pg.Database, damage: str) -> None:
    async with sites.opened(db, unreadable=True) as site:
        sick, well = await site.active(), await site.active()
        await site.conn.execute(
            f"SET session_replication_role = replica; UPDATE farrier.nodes SET {damage} WHERE id = {sick.id};"
            "SET session_replication_role = origin"
        )
        await sick.tell("drain")
        await well.asked("drain")
        outcome = msgspec.json.decode((await sick.look())["outcome"])
        assert (outcome["outcome"], outcome["error"]) == ("error", "undecodable_state")
        await site.wait(MINUTE)
        assert (await well.state())[0] == "draining"
