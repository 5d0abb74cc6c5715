"""The management layer through the real loop: which machine it takes, when it tries, and what it leaves alone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TypeAlias
from uuid import uuid4

import msgspec
import pytest

from farrier.io.node import NodeRows
from farrier.io.state import PostgresStateIO
from farrier.model.bmc import BmcError, BmcFailure
from tests.support import paths_of_adoption as adoption
from tests.support import paths_of_jobs as jobs
from tests.support import pg
from tests.support import site as sites
from tests.support.fake_bmc import READING
from tests.support.site import MINUTE, SECOND, Machine, Site

To: TypeAlias = Callable[[Site], Awaitable[Machine]]


# --- which machine


async def test_the_first_verification_records_who_the_machine_is(site: Site) -> None:
    site.bmc.script = lambda _target: msgspec.structs.replace(READING, macs=("aa:bb:cc:00:00:01",))
    bmc = await (await site.with_bmc()).bmc()
    assert (bmc["serial"], bmc["uuid"], bmc["macs"]) == (READING.serial, READING.uuid, ["aa:bb:cc:00:00:01"])
    assert site.bmc.asked_for_macs == [True]


async def test_what_was_recorded_first_stays_over_verifications(site: Site) -> None:
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
    assert (await machine.state())[0] == "active", "the status does not depend on it"
    dialled = len(site.bmc.calls)
    await site.wait(timedelta(hours=1))
    assert len(site.bmc.calls) == dialled


@pytest.mark.parametrize("clears", [True, False], ids=["cleared and given again", "another address"])
async def test_forgetting_the_bmc_is_how_a_replaced_machine_is_accepted(site: Site, clears: bool) -> None:
    machine = await site.with_bmc()
    address = (await machine.look())["bmc_address"]
    site.bmc.script = lambda _target: adoption.another_machine()
    await machine.asked("manage")
    if clears:
        await machine.asked("clear_bmc")
    await machine.asked("set_bmc", address=address if clears else "https://10.0.9.1", credential="env:BMC")
    assert ((await machine.look())["management"], (await machine.bmc())["serial"]) == ("manageable", "SN-9")


async def test_a_registered_mac_address_that_the_bmc_lacks_is_another_machine(site: Site) -> None:
    site.bmc.script = lambda _target: msgspec.structs.replace(
        READING, serial=None, uuid=None, macs=("aa:bb:cc:00:00:09",)
    )
    machine = await site.with_bmc(macs=["aa:bb:cc:00:00:01"])
    bmc = await machine.bmc()
    assert bmc["failure"] == "identity_mismatch"
    assert "expected MAC aa:bb:cc:00:00:01, the BMC reports aa:bb:cc:00:00:09" in bmc["last_error"]


# --- when


async def test_cancel_stops_a_verification_that_no_workflow_asked_for(site: Site) -> None:
    machine = await site.active()
    await machine.asked("set_bmc", address="https://10.0.9.1", credential="env:BMC")
    await site.verifying(machine)
    intent = await machine.tell("cancel")
    await site.cut_short()
    assert (await site.answer(intent)).status == "accepted"
    assert (await machine.look())["management"] == "enroll"
    dialled = len(site.bmc.calls)
    await site.wait(4 * MINUTE)
    assert len(site.bmc.calls) == dialled, "auto_manage leaves it alone for a while"
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


async def test_a_bmc_that_asks_for_patience_gets_it(site: Site) -> None:
    site.bmc.fail(BmcError(BmcFailure.UNREACHABLE, "HTTP 503", retry_after=4 * MINUTE))
    await site.with_bmc()
    dialled = len(site.bmc.calls)
    await site.wait(3 * MINUTE)
    assert len(site.bmc.calls) == dialled
    await site.wait(MINUTE + SECOND)
    assert len(site.bmc.calls) > dialled


async def test_what_was_not_dialled_is_no_failed_login(site: Site) -> None:
    site.bmc.fail(BmcError(BmcFailure.AUTH, "refused three times; waits", dialled=False, retry_after=2 * MINUTE))
    machine = await site.with_bmc()
    for _ in range(4):
        await machine.asked("manage")
    bmc = await machine.bmc()
    assert "tries" not in bmc
    assert bmc["failure"] == "auth"


async def test_a_crash_while_verifying_is_continued_by_a_peer_within_the_lease(db: pg.Database) -> None:
    async with sites.opened(db, crash=True) as site:
        await site.verifying(await site.with_bmc("gpu-1", auto_manage=False))
    async with sites.opened(db) as peer:
        machine = Machine(peer, "gpu-1", 1)
        assert (await machine.look())["management"] == "verifying"
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


async def test_a_request_for_another_node_s_bmc_costs_a_verification_no_login(site: Site) -> None:
    """It is refused once the verification has ended; what may be done is not kept waiting."""
    await site.register("holder", bmc_address="https://taken.example")
    machine = await site.verifying(await site.with_bmc())
    dialled = len(site.bmc.calls)
    refused = await machine.tell("set_bmc", address="TAKEN.example")
    io = PostgresStateIO(site.pool, NodeRows(), owner=uuid4(), lease=MINUTE)
    assert await io.interrupted([machine.id]) == frozenset()
    site.bmc.let_go()
    await site.settled()
    answer = await site.answer(refused)
    assert (answer.status, answer.reason) == ("rejected", "the BMC TAKEN.example belongs to node holder already")
    assert ((await machine.look())["management"], len(site.bmc.calls)) == ("manageable", dialled)
    assert "tries" not in await machine.bmc()


async def test_a_request_that_can_be_met_cuts_a_verification_short(site: Site) -> None:
    machine = await site.verifying(await site.with_bmc())
    given = await machine.tell("set_bmc", address="https://free.example")
    await site.cut_short()
    assert (await site.answer(given)).status == "accepted"
