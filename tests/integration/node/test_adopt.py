"""Adoption through the real loop: its conditions, what it commits together, and which intents interrupt it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from farrier.model.machine.bmc import BmcError, BmcFailure, BmcReading, PowerState
from tests.support import pg
from tests.support import site as sites
from tests.support.acceptance import refused
from tests.support.fake_bmc import READING
from tests.support.paths_of_adoption import another_machine
from tests.support.site import MINUTE, SECOND, Machine, Site

MAC = "aa:bb:cc:00:00:01"


def reads(site: Site, **changes: Any) -> None:
    """From now on every verification returns the usual reading with these changes."""
    reading: BmcReading = msgspec.structs.replace(READING, **changes)
    site.bmc.script = lambda _target: reading


async def layers(machine: Machine) -> tuple[str, str, str | None]:
    row = await machine.look()
    return row["status"], row["management"], row["workflow_status"]


async def last_commit(machine: Machine) -> dict[str, str]:
    """The transitions of the newest commit that has any: the target value by layer."""
    rows = await machine.site.conn.fetch(
        "SELECT layer, to_value FROM farrier.history h WHERE id = $1 AND version ="
        " (SELECT max(version) FROM farrier.history WHERE id = $1)",
        machine.id,
    )
    return {row["layer"]: row["to_value"] for row in rows}


# --- what commits together


async def test_an_agentless_node_is_active_in_the_commit_that_proves_it(site: Site) -> None:
    machine = await (await site.with_bmc(agentless=True)).asked("adopt")
    commit = await last_commit(machine)
    assert (commit["management"], commit["onboarding"], commit["status"]) == ("manageable", "reconciled", "active")


async def test_a_node_whose_agent_is_healthy_is_active_in_the_commit_that_proves_it(site: Site) -> None:
    machine = await site.with_bmc()
    await (await machine.enroll()).beat()
    await machine.asked("adopt")
    commit = await last_commit(machine)
    assert (commit["management"], commit["onboarding"], commit["status"]) == ("manageable", "reconciled", "active")


async def test_the_onboarding_of_an_adopted_node_waits_for_its_agent(site: Site) -> None:
    machine = await (await site.with_bmc()).asked("adopt")
    assert await layers(machine) == ("enrolling", "manageable", "running")
    assert await machine.path("onboarding_stage") == [
        "load_site_config",
        "resolve_power_credentials",
        "create_or_find_in_maas",
        "wait_for_agent_enrollment",
    ]
    await (await machine.enroll()).beat()
    assert await layers(machine) == ("active", "manageable", "reconciled")


async def test_the_onboarding_of_a_machine_that_is_off_waits_for_its_power(site: Site) -> None:
    machine = await site.with_bmc(agentless=True)
    reads(site, power=PowerState.OFF)
    await machine.asked("adopt")
    assert await layers(machine) == ("enrolling", "manageable", "running")


async def test_the_adoption_of_a_node_without_maas_id_skips_the_maas_stage_and_records_why(site: Site) -> None:
    machine = await (await site.with_bmc(agentless=True)).asked("adopt")
    skipped = await site.conn.fetchval(
        "SELECT skipped::text FROM farrier.node_onboardings WHERE node_id = $1", machine.id
    )
    assert msgspec.json.decode(skipped) == [{"stage": "create_or_find_in_maas", "why": "the node has no MAAS id"}]


async def test_a_node_with_a_maas_id_and_no_site_is_proven_and_then_waits_for_an_operator(site: Site) -> None:
    machine = await (await site.with_bmc(agentless=True, maas_id="abc123")).asked("adopt")
    assert await layers(machine) == ("enrolling", "manageable", "failed_manual_intervention")
    assert (await machine.look())["failure_class"] == "invalid_config"


async def test_adoption_clears_the_error_that_it_proves_gone(site: Site) -> None:
    machine = await site.with_bmc(agentless=True)
    site.bmc.fail(BmcError(BmcFailure.TLS, "certificate expired"))
    await machine.asked("adopt")
    assert (await machine.bmc())["last_error"] == "certificate expired"
    site.bmc.recover()
    await machine.asked("adopt")
    assert {"last_error", "failure", "failures"}.isdisjoint(await machine.bmc())
    assert (await machine.state())[0] == "active"


async def test_a_failed_probe_is_adopt_failed_with_its_class(site: Site) -> None:
    for failure in (BmcFailure.AUTH, BmcFailure.UNREACHABLE):
        machine = await site.with_bmc(agentless=True)
        site.bmc.fail(BmcError(failure, "it said no", credential_version="v2"))
        await machine.asked("adopt")
        site.bmc.recover()
        bmc = await machine.bmc()
        assert (await machine.look())["management"] == "adopt_failed"
        assert (bmc["failure"], bmc["last_error"], bmc["tried_version"]) == (failure, "it said no", "v2")
        assert len(bmc.get("tries", ())) == (failure is BmcFailure.AUTH), "only a refused login counts"
    dialled = len(site.bmc.calls)
    await site.wait(timedelta(hours=1))
    assert len(site.bmc.calls) == dialled, "no intent asked for another attempt"


# --- what must be recorded


async def test_another_machine_is_not_adopted_and_the_node_is_quarantined(site: Site) -> None:
    machine = await site.with_bmc(agentless=True)
    site.bmc.script = lambda _target: another_machine()
    await machine.asked("adopt")
    assert await layers(machine) == ("quarantined", "adopt_failed", "failed_manual_intervention")
    bmc = await machine.bmc()
    assert bmc["failure"] == "identity_mismatch"
    assert "expected serial SN-1, the BMC reports SN-9" in bmc["last_error"]
    assert (await machine.look())["failure_class"] == "identity_mismatch"
    assert bmc["serial"] == "SN-1", "what was recorded stays"


async def test_adopt_is_rejected_before_any_call_if_no_identity_is_recorded(site: Site) -> None:
    reads(site, serial=None, uuid="00000000-0000-0000-0000-000000000000")
    machine = await site.with_bmc(agentless=True)
    dialled = len(site.bmc.calls)
    assert "submit set with a macs" in await refused(machine, "adopt")
    assert len(site.bmc.calls) == dialled


@pytest.mark.parametrize(
    ("macs", "ends"), [((MAC,), "manageable"), (("aa:bb:cc:00:00:09",), "adopt_failed"), ((), "adopt_failed")], ids=str
)
async def test_registered_mac_addresses_suffice_to_identify_a_machine(
    site: Site, macs: tuple[str, ...], ends: str
) -> None:
    reads(site, serial=None, uuid=None)
    machine = await site.with_bmc(agentless=True, macs=[MAC])
    reads(site, serial=None, uuid=None, macs=macs)
    await machine.asked("adopt")
    assert (await machine.look())["management"] == ends
    assert site.bmc.asked_for_macs[-1]


async def test_an_adoption_reads_the_mac_addresses_even_if_a_serial_number_is_recorded(site: Site) -> None:
    machine = await site.with_bmc(agentless=True)
    assert (await machine.bmc())["serial"] == "SN-1"
    await machine.asked("adopt")
    assert site.bmc.asked_for_macs[-1]


async def test_a_machine_without_a_recorded_fact_is_not_adopted_and_not_reported_as_another(site: Site) -> None:
    machine = await site.with_bmc(agentless=True)
    reads(site, serial=None, uuid=None)
    await machine.asked("adopt")
    assert await layers(machine) == ("enrolling", "adopt_failed", "failed_manual_intervention")
    assert (await machine.bmc())["failure"] == "unsupported"


# --- intents that interrupt it


async def test_a_delete_is_answered_after_the_adoption_was_interrupted(site: Site) -> None:
    machine = await site.adopting(await site.with_bmc(agentless=True))
    dialled = len(site.bmc.calls)
    await machine.tell("delete")
    await site.cut_short()
    assert await machine.path("management") == ["enroll", "verifying", "manageable", "adopting", "adopt_failed"]
    assert (await machine.state())[0] == "deleted"
    assert len(site.bmc.calls) == dialled


@pytest.mark.parametrize(
    ("action", "params"),
    [("pause", {"reason": "fire drill"}), ("set_bmc", {"credential": "env:OTHER"})],
    ids=["pause", "set_bmc"],
)
async def test_an_interrupted_adoption_waits_for_an_operator(site: Site, action: str, params: dict[str, str]) -> None:
    machine = await site.adopting(await site.with_bmc(agentless=True))
    await machine.tell(action, **params)
    await site.cut_short()
    assert await layers(machine) == ("enrolling", "adopt_failed", "failed_manual_intervention")
    if action == "pause":
        await machine.asked("unpause")
    await machine.asked("adopt")
    assert (await machine.state())[0] == "active"


async def test_a_cancelled_adoption_ends_its_onboarding_and_can_be_repeated(site: Site) -> None:
    machine = await site.adopting(await site.with_bmc(agentless=True))
    await machine.tell("cancel")
    await site.cut_short()
    assert await layers(machine) == ("enrolling", "adopt_failed", "cancelled")
    await machine.asked("adopt")
    assert (await machine.state())[0] == "active"


async def test_a_changed_bmc_address_is_read_again_by_the_adoption(site: Site) -> None:
    """When the BMC gets another address while the node waits for its agent, the adoption reads the machine again."""
    machine = await (await site.with_bmc()).asked("adopt")
    probes = len(site.bmc.calls)
    await machine.asked("set_bmc", address="https://10.9.9.1")
    assert [call.address for call in site.bmc.calls[probes:]] == ["https://10.9.9.1"] * 2, "verified, then adopted"
    await (await machine.enroll()).beat()
    assert await layers(machine) == ("active", "manageable", "reconciled")


async def test_removed_details_leave_the_onboarding_to_an_operator(site: Site) -> None:
    machine = await site.adopting(await site.with_bmc(agentless=True))
    await machine.tell("clear_bmc")
    await site.cut_short()
    assert await layers(machine) == ("enrolling", "error", "failed_manual_intervention")


async def test_a_frozen_onboarding_is_not_finished_by_the_probe(site: Site) -> None:
    machine = await site.with_bmc(agentless=True)
    answers = await machine.ask_together(("adopt", {}), ("mark_manual_intervention_required", {"reason": "wrong rack"}))
    assert [answer.status for answer in answers] == ["accepted", "accepted"]
    assert await layers(machine) == ("enrolling", "manageable", "failed_manual_intervention")


# --- when it is refused, and when it waits


@pytest.mark.parametrize(
    ("details", "why"),
    [
        ({}, "submit set_bmc with an address and a credential or onboard with mode: manual"),
        ({"bmc_address": "https://10.0.0.1"}, "no BMC credential is set"),
    ],
    ids=["unmanaged", "incomplete"],
)
async def test_onboard_in_mode_adopt_needs_bmc_details(site: Site, details: dict[str, str], why: str) -> None:
    assert why in await refused(await site.register(**details), "onboard", mode="adopt")
    assert not site.bmc.calls


async def test_onboard_in_mode_adopt_requests_manage_itself(site: Site) -> None:
    machine = await site.with_bmc(agentless=True, auto_manage=False)
    assert not site.bmc.calls
    await machine.asked("onboard", mode="adopt")
    assert await machine.path("management") == ["enroll", "verifying", "manageable", "adopting", "manageable"]
    assert await layers(machine) == ("active", "manageable", "reconciled")


async def test_a_retired_node_is_not_adopted(site: Site) -> None:
    machine = await site.retired()
    assert "accepted in status" in await refused(machine, "adopt")
    assert "this node is retired" in await refused(machine, "onboard", mode="adopt")


async def test_a_node_that_was_in_service_is_not_adopted_out_of_quarantine(site: Site) -> None:
    machine = await (await site.with_bmc(agentless=True)).asked("adopt")
    await machine.asked("quarantine", reason="looked at")
    assert "was in service" in await refused(machine, "adopt")


async def test_observed_state_does_not_replace_the_read_that_proves_the_machine(site: Site) -> None:
    machine = await site.with_bmc()
    await (await machine.enroll()).beat()
    site.bmc.script = lambda _target: another_machine()
    await machine.asked("adopt")
    await machine.beat()
    assert "no read has confirmed the recorded machine yet" in await refused(machine, "adopt_observed_state")
    assert (await machine.state())[0] == "quarantined"


async def test_an_adoption_at_the_login_cap_waits_and_then_begins_by_itself(site: Site) -> None:
    machine = await site.with_bmc(agentless=True)
    site.bmc.fail(BmcError(BmcFailure.AUTH, "401"))
    for _ in range(3):
        await machine.asked("adopt")
    site.bmc.recover()
    dialled = len(site.bmc.calls)
    answer = await machine.ask("adopt")
    assert answer.status == "accepted" and "3 logins failed or have an unknown result" in (answer.reason or "")
    assert len(site.bmc.calls) == dialled
    assert (await layers(machine))[1:] == ("adopt_failed", "running")
    await site.wait(5 * MINUTE + SECOND)
    assert await layers(machine) == ("active", "manageable", "reconciled")


# --- crashes


async def test_an_adoption_that_a_crash_cut_off_is_finished_by_a_peer(db: pg.Database) -> None:
    async with sites.opened(db, crash=True) as site:
        cut_off = await site.adopting(await site.with_bmc("gpu-1", agentless=True))
        assert (await cut_off.look())["management"] == "adopting"
    async with sites.opened(db) as peer:
        machine = Machine(peer, "gpu-1", 1)
        await peer.wait(15 * SECOND)
        assert await layers(machine) == ("active", "manageable", "reconciled")
        assert await machine.path("management") == ["enroll", "verifying", "manageable", "adopting", "manageable"]


async def test_logins_of_adoptions_that_crashes_cut_off_are_counted(db: pg.Database) -> None:
    for life in range(3):
        async with sites.opened(db, crash=True) as site:
            if life == 0:
                await site.adopting(await site.with_bmc("gpu-1", agentless=True))
            else:
                site.bmc.hold()
                await site.db.advance(15 * SECOND)
                site.wake()
                await site.bmc.called()
    async with sites.opened(db) as site:
        machine = Machine(site, "gpu-1", 1)
        await site.wait(15 * SECOND)
        assert not site.bmc.calls, "the cap is reached"
        assert len((await machine.bmc())["tries"]) == 3
        await site.wait(16 * SECOND)
        assert await layers(machine) == ("enrolling", "adopt_failed", "failed_manual_intervention")


async def test_adopting_ends_at_its_deadline_although_its_process_died(db: pg.Database) -> None:
    async with sites.opened(db, crash=True) as site:
        await site.adopting(await site.with_bmc("gpu-1", agentless=True))
    await db.advance(61 * SECOND)
    async with sites.opened(db) as peer:
        await peer.settled()
        machine = Machine(peer, "gpu-1", 1)
        assert await layers(machine) == ("enrolling", "adopt_failed", "failed_manual_intervention")
        bmc = await machine.bmc()
        assert (bmc["failure"], len(bmc["tries"])) == ("timeout", 1)
        assert not peer.bmc.calls
