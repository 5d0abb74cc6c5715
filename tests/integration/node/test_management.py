"""The management layer through the real loop: which machine it accepts, when it tries, and what it does not change."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, TypeAlias

import msgspec
import pytest

from farrier.io.kinds.node import NodeRows
from farrier.io.kinds.state import PostgresStateIO
from farrier.io.queries.lists import PostgresQueries
from farrier.model.machine.bmc import BmcError, BmcFailure, BmcReading, BmcTarget, PowerState
from tests.support import paths_of_adoption as adoption
from tests.support import paths_of_jobs as jobs
from tests.support import pg
from tests.support import site as sites
from tests.support.fake_bmc import READING
from tests.support.site import MINUTE, SECOND, Machine, Site

To: TypeAlias = Callable[[Site], Awaitable[Machine]]


# --- which machine


async def test_the_first_verification_records_the_machines_identity(site: Site) -> None:
    site.bmc.script = lambda _target: msgspec.structs.replace(READING, macs=("aa:bb:cc:00:00:01",))
    bmc = await (await site.with_bmc()).bmc()
    assert (bmc["serial"], bmc["uuid"], bmc["macs"]) == (READING.serial, READING.uuid, ["aa:bb:cc:00:00:01"])
    assert site.bmc.asked_for_macs == [True]


async def test_a_verification_keeps_the_identity_that_was_recorded_first(site: Site) -> None:
    site.bmc.script = lambda _target: msgspec.structs.replace(READING, macs=("aa:bb:cc:00:00:01",))
    machine = await site.with_bmc()
    site.bmc.script = lambda _target: msgspec.structs.replace(READING, serial=" sn-1", macs=())
    bmc = await (await machine.asked("manage")).bmc()
    assert (bmc["serial"], bmc["macs"]) == ("SN-1", ["aa:bb:cc:00:00:01"])
    assert site.bmc.asked_for_macs == [True, False], "a known machine is verified with as few requests as possible"


async def test_a_verification_that_sees_another_machine_fails_and_waits_for_an_edit(site: Site) -> None:
    machine = await site.active()
    await machine.asked("set_bmc", address="https://10.0.9.1", credential="env:BMC")
    site.bmc.script = lambda _target: adoption.another_machine()
    await machine.asked("manage")
    bmc = await machine.bmc()
    assert ((await machine.look())["management"], bmc["failure"]) == ("enroll", "identity_mismatch")
    assert "expected serial SN-1, the BMC reports SN-9" in bmc["last_error"]
    assert await machine.conditions() == {"identity/another_machine": "quarantine"}
    assert (await machine.state())[0] == "quarantined"
    dialled = len(site.bmc.calls)
    await site.wait(timedelta(hours=1))
    assert len(site.bmc.calls) == dialled


async def test_a_registered_mac_address_that_the_bmc_lacks_is_another_machine(site: Site) -> None:
    site.bmc.script = lambda _target: msgspec.structs.replace(
        READING, serial=None, uuid=None, macs=("aa:bb:cc:00:00:09",)
    )
    machine = await site.with_bmc(macs=["aa:bb:cc:00:00:01"])
    bmc = await machine.bmc()
    assert bmc["failure"] == "identity_mismatch"
    assert "expected MAC aa:bb:cc:00:00:01, the BMC reports aa:bb:cc:00:00:09" in bmc["last_error"]


# --- a firmware that renames the system

OLD, NEW = "/redfish/v1/Systems/Self", "/redfish/v1/Systems/1"


def only_at(path: str, **fields: Any) -> Callable[[BmcTarget], BmcReading]:
    """A script of a BMC whose system has this path."""

    def script(target: BmcTarget) -> BmcReading:
        if target.system_path not in (None, path):
            raise BmcError(BmcFailure.UNSUPPORTED, f"{target.system_path} answers with HTTP status 404")
        return msgspec.structs.replace(READING, system_path=path, **fields)

    return script


async def renamed(site: Site, address: str = "https://10.0.0.1", **fields: Any) -> Machine:
    """A manageable node whose system has got another path since its verification."""
    site.bmc.script = site.bmc.read_script = only_at(OLD)
    machine = await site.with_bmc(bmc_address=address)
    assert (await machine.bmc())["system_path"] == OLD
    site.bmc.script = site.bmc.read_script = only_at(NEW, **fields)
    return machine


async def test_manage_finds_the_system_of_a_bmc_whose_firmware_renamed_it(site: Site) -> None:
    machine = await renamed(site)
    await machine.asked("manage")
    await site.wait(MINUTE)
    bmc = await machine.bmc()
    assert ((await machine.look())["management"], bmc["system_path"]) == ("manageable", NEW)
    assert "sync_failure" not in bmc


async def test_a_verification_for_a_new_credential_version_finds_the_renamed_system_too(site: Site) -> None:
    machine = await renamed(site)
    site.secrets.current = "v2"
    await site.wait(2 * MINUTE)
    assert ((await machine.look())["management"], (await machine.bmc())["system_path"]) == ("manageable", NEW)


async def test_another_machine_behind_the_new_path_is_still_refused(site: Site) -> None:
    machine = await renamed(site, serial="SN-9", uuid=None)
    await machine.asked("manage")
    bmc = await machine.bmc()
    assert ((await machine.look())["management"], bmc["failure"]) == ("enroll", "identity_mismatch")


async def test_a_system_path_in_the_address_is_never_replaced(site: Site) -> None:
    machine = await renamed(site, address=f"https://10.0.0.1{OLD}")
    await machine.asked("manage")
    assert (await machine.bmc())["failure"] == "unsupported"
    assert {call.system_path for call in site.bmc.calls} == {OLD}


# --- failures


async def test_power_that_was_not_read_is_unknown(site: Site) -> None:
    machine = await site.with_bmc()
    site.bmc.fail(BmcError(BmcFailure.TIMEOUT, "slow"))
    await machine.asked("manage")
    assert not {"power", "power_at"} & set(await machine.bmc())
    found = (await PostgresQueries(site.pool).node(machine.name)).rows[0]
    assert (found.bmc.power, found.bmc.power_at) == (PowerState.UNKNOWN, None)


# --- when


async def test_cancel_stops_a_verification_outside_of_a_workflow(site: Site) -> None:
    machine = await site.active()
    await machine.asked("set_bmc", address="https://10.0.9.1", credential="env:BMC")
    await site.verifying(machine)
    intent = await machine.tell("cancel")
    await site.cut_short()
    assert (await site.answer(intent)).status == "accepted"
    assert (await machine.look())["management"] == "enroll"
    dialled = len(site.bmc.calls)
    await site.wait(4 * MINUTE)
    assert len(site.bmc.calls) == dialled, "auto_manage does not try it again for a while"
    await site.wait(MINUTE + SECOND)
    assert (await machine.look())["management"] == "manageable"


@pytest.mark.parametrize("auto_manage", [True, False])
async def test_cancel_of_an_onboarding_stops_the_verification_too(site: Site, auto_manage: bool) -> None:
    machine = await site.verifying(await site.with_bmc(auto_manage=auto_manage))
    await machine.tell("cancel")
    await site.cut_short()
    row = await machine.look()
    assert (row["workflow_status"], row["management"]) == ("cancelled", "enroll")
    await site.wait(5 * MINUTE + SECOND)
    assert (await machine.look())["management"] == ("manageable" if auto_manage else "enroll")


async def test_a_bmc_is_not_called_before_its_retry_after_has_passed(site: Site) -> None:
    site.bmc.fail(BmcError(BmcFailure.UNREACHABLE, "HTTP 503", retry_after=4 * MINUTE))
    await site.with_bmc()
    dialled = len(site.bmc.calls)
    await site.wait(3 * MINUTE)
    assert len(site.bmc.calls) == dialled
    await site.wait(MINUTE + SECOND)
    assert len(site.bmc.calls) > dialled


async def test_a_failure_without_a_connection_is_not_counted_as_a_failed_login(site: Site) -> None:
    site.bmc.fail(BmcError(BmcFailure.AUTH, "refused three times; waits", dialled=False, retry_after=2 * MINUTE))
    machine = await site.with_bmc()
    for _ in range(4):
        await machine.asked("manage")
    bmc = await machine.bmc()
    assert "tries" not in bmc
    assert bmc["failure"] == "auth"


async def test_a_verification_that_a_crash_cut_off_is_finished_by_a_peer(db: pg.Database) -> None:
    async with sites.opened(db, crash=True) as site:
        cut_off = await site.verifying(await site.with_bmc("gpu-1", auto_manage=False))
        assert (await cut_off.look())["management"] == "verifying"
    async with sites.opened(db) as peer:
        machine = Machine(peer, "gpu-1", 1)
        await peer.wait(15 * SECOND)
        assert (await machine.look())["management"] == "manageable"


# --- delete


async def unmanaged(site: Site) -> Machine:
    return await site.register()


@pytest.mark.parametrize(
    "to",
    [
        unmanaged,
        jobs.bmc_that_is_silent,
        jobs.managed_by_itself,
        adoption.adoption_that_gets_no_answer,
        adoption.adoption_of_another_machine,
        jobs.cleared,
    ],
    ids=lambda path: path.__name__,
)
async def test_a_delete_never_touches_a_bmc(site: Site, to: To) -> None:
    machine = await to(site)
    site.bmc.fail(AssertionError("a deleted node's BMC was called"))
    called = (len(site.bmc.calls), len(site.bmc.reads), len(site.bmc.powers))
    await machine.asked("delete")
    await site.wait(timedelta(hours=1))
    assert (await machine.state())[0] == "deleted"
    assert (len(site.bmc.calls), len(site.bmc.reads), len(site.bmc.powers)) == called


async def test_an_intent_for_another_node_s_bmc_does_not_interrupt_a_verification(site: Site) -> None:
    """The intent cannot be met, and is rejected after the verification."""
    await site.register("holder", bmc_address="https://taken.example")
    machine = await site.verifying(await site.with_bmc())
    dialled = len(site.bmc.calls)
    refused = await machine.tell("set_bmc", address="TAKEN.example")
    io = PostgresStateIO(site.pool, NodeRows())
    assert await io.interrupted([machine.id]) == frozenset()
    site.bmc.let_go()
    await site.settled()
    answer = await site.answer(refused)
    assert (answer.status, answer.reason) == ("rejected", "the BMC TAKEN.example already belongs to node holder")
    assert ((await machine.look())["management"], len(site.bmc.calls)) == ("manageable", dialled)
    assert "tries" not in await machine.bmc()
