"""Rows of Ironic: enroll and verify (A), adopt (B), delete and power (C)."""

from __future__ import annotations

import anyio

from farrier.model.intents.params import PowerRequest
from farrier.model.loop.controllers import SHARDS
from farrier.model.machine.bmc import BmcError, BmcFailure, PowerState
from farrier.model.node.snapshot import TaskType
from tests.support import paths_of_adoption as adoption
from tests.support import paths_of_jobs as jobs
from tests.support import pg
from tests.support import site as sites
from tests.support.acceptance import called, errors, layers, reads, refused, row, row_of_a_crash
from tests.support.loop import PATIENCE
from tests.support.site import MINUTE, SECOND, Machine, Site

NO_ROUTE = BmcError(BmcFailure.UNREACHABLE, "no route")


@row("A01", theirs="enroll, power unknown", ours="the same")
async def created(site: Site) -> None:
    machine = await site.with_bmc(auto_manage=False)
    assert await layers(machine) == ("enrolling", "enroll")
    assert "power" not in await machine.bmc()


@row("A03", theirs="manageable, power recorded, one notification", ours="the same, and one row of history")
async def verified_while_off(site: Site) -> None:
    reads(site, power=PowerState.OFF)
    machine = await site.with_bmc()
    assert (await machine.bmc())["power"] == "off"
    assert not await errors(machine)
    assert await machine.path("management") == ["enroll", "verifying", "manageable"]


@row("A04", theirs="enroll with last_error, power never read", ours="the same; farrier does not connect")
async def details_that_cannot_be_used(site: Site) -> None:
    machine = await site.register(bmc_address="https://10.0.0.1")
    assert ((await machine.look())["management"], (await machine.bmc())["failure"]) == ("enroll", "incomplete")
    assert called(site) == 0


@row("A05", theirs="enroll with last_error, and a row of history", ours="the same, with class and time of the next try")
async def bmc_that_raises(site: Site) -> None:
    machine = await jobs.bmc_that_is_silent(site)
    bmc = await machine.bmc()
    assert ((await machine.look())["management"], bmc["last_error"], bmc["failure"]) == (
        "enroll",
        "no route",
        "unreachable",
    )
    assert "next_try_at" in bmc
    assert (await machine.moves("management"))[-1].cause == "step: verify"


@row("A06", theirs="optional properties may be missing", ours="the same")
async def bmc_that_says_little(site: Site) -> None:
    reads(site, serial=None, uuid=None, manufacturer=None, health=None)
    assert (await layers(await site.with_bmc()))[1] == "manageable"


@row("A08", theirs="refused in maintenance", ours="kept until the pause ends", better="no client has to retry")
async def asked_while_paused(site: Site) -> None:
    machine = await (await site.with_bmc(auto_manage=False)).asked("pause", reason="fire drill")
    intent = await machine.tell("manage")
    await site.settled()
    assert ((await site.answer(intent)).status, called(site)) == ("pending", 0)
    await machine.asked("unpause")
    assert (await layers(machine))[1] == "manageable"


@row_of_a_crash(
    "A09",
    "A13",
    "C30",
    theirs="the next start removes locks; verifying ends in enroll with an error; adopting stays for ever",
    ours="another controller continues after the lease, and both succeed",
    better="a crash is no failure of the node, and a start has to repair nothing",
)
async def controller_that_dies(db: pg.Database) -> None:
    async with sites.opened(db, crash=True) as site:
        adopted = await site.with_bmc("gpu-1", agentless=True)
        await site.with_bmc("gpu-2", auto_manage=False)
        await site.adopting(adopted)
        await site.verifying(Machine(site, "gpu-2", 2))
    async with sites.opened(db) as peer:
        await peer.wait(15 * SECOND)
        assert await layers(Machine(peer, "gpu-1", 1)) == ("active", "manageable")
        assert (await layers(Machine(peer, "gpu-2", 2)))[1] == "manageable"
        assert not await errors(Machine(peer, "gpu-2", 2))


@row_of_a_crash("C32", theirs="lock removed, state untouched", ours="nothing is read while it is paused")
async def controller_that_dies_over_a_paused_node(db: pg.Database) -> None:
    async with sites.opened(db, crash=True) as site:
        await site.verifying(await site.with_bmc("gpu-1", auto_manage=False))
    async with sites.opened(db) as peer:
        machine = Machine(peer, "gpu-1", 1)
        await machine.tell("pause", reason="fire drill")
        await peer.wait(15 * SECOND)
        assert ((await layers(machine))[1], called(peer)) == ("enroll", 0)


@row("A14", theirs="manage, provide, deploy, delete in turn", ours="manage, adopt, drain, remove in turn")
async def a_whole_life(site: Site) -> None:
    machine = await (await site.with_bmc(auto_manage=False)).asked("manage")
    await (await machine.enroll()).beat()
    await machine.asked("adopt")
    assert await layers(machine) == ("active", "manageable")
    await (await machine.asked("drain")).finish(TaskType.DRAIN)
    await (await machine.asked("remove")).finish(TaskType.UNINSTALL)
    assert (await layers(machine))[0] == "deleted"


@row("B01", "B10", "E08", theirs="adopting, with no last error", ours="the same")
async def adopt_is_asked_for(site: Site) -> None:
    machine = await site.adopting(await site.with_bmc(agentless=True))
    assert (await layers(machine))[1] == "adopting"
    assert not await errors(machine)
    site.bmc.let_go()


@row(
    "B02",
    "E10",
    theirs="adopting again; the last error is cleared at once",
    ours="adopting again; the last error stays until the probe succeeds",
    better="the error stays until a probe proves that it is gone",
)
async def adopt_is_asked_for_again(site: Site) -> None:
    machine = await adoption.adoption_that_gets_no_answer(site)
    site.bmc.recover()
    await site.adopting(machine)
    assert ((await layers(machine))[1], (await machine.bmc())["last_error"]) == ("adopting", "no route")
    site.bmc.let_go()
    await site.settled()
    assert not await errors(machine)


@row(
    "B03",
    theirs="active; no interface is validated for a machine that boots from disk",
    ours="active, after a fresh read and a comparison of the machine",
    better="a dead BMC, or another machine, is not adopted by accident",
)
async def adoption_goes_well(site: Site) -> None:
    machine = await site.with_bmc(agentless=True)
    before = len(site.bmc.calls)
    await machine.asked("adopt")
    assert await layers(machine) == ("active", "manageable")
    assert len(site.bmc.calls) == before + 1


@row("B06", theirs="adopt failed, without any other call", ours="the same: one read, and no other call")
async def adoption_fails(site: Site) -> None:
    machine = await site.with_bmc(agentless=True)
    before = called(site)
    site.bmc.fail(NO_ROUTE)
    await machine.asked("adopt")
    assert ((await layers(machine))[1], called(site)) == ("adopt_failed", before + 1)


@row(
    "B08",
    "B14",
    theirs="manageable at once, with a stale last error",
    ours="verified on the way",
    better="manageable means proven",
)
async def adoption_is_given_up(site: Site) -> None:
    machine = await adoption.adoption_that_is_given_up(site)
    assert (await machine.path("management"))[-2:] == ["verifying", "manageable"]
    assert not await errors(machine)


@row("B11", "E11", theirs="refused in active, without a call", ours="the same; the reason names the states")
async def adopt_in_active(site: Site) -> None:
    machine = await adoption.adopted_without_an_agent(site)
    before = called(site)
    assert "adopt is accepted in status" in await refused(machine, "adopt")
    assert called(site) == before


@row("B13", theirs="deploy, rebuild and undeploy are refused in adopt failed", ours="the same, for farrier's actions")
async def other_requests_after_an_adoption_failed(site: Site) -> None:
    machine = await adoption.adoption_that_gets_no_answer(site)
    for action, params in (("decommission", {"mode": "reimage"}), ("drain", {}), ("onboard", {"mode": "deploy"})):
        await refused(machine, action, **params)


@row("B16", theirs="record, delete the record, record again, manage, adopt", ours="the same")
async def adopted_once_more(site: Site) -> None:
    for _ in range(2):
        machine = await site.register("gpu-1", bmc_address="https://10.0.0.9", bmc_credential="env:BMC")
        await (await machine.enroll()).beat()
        await machine.asked("adopt")
        assert await layers(machine) == ("active", "manageable")
        await (await machine.asked("drain")).finish(TaskType.DRAIN)
        await (await machine.asked("remove")).finish(TaskType.UNINSTALL)


@row("C01", theirs="deleted in enroll, manageable and adopt failed", ours="the same, along edges of the model")
async def deleted_before_service(site: Site) -> None:
    managed, failed = await jobs.managed_by_itself(site), await adoption.adoption_that_gets_no_answer(site)
    for machine in (managed, failed, await jobs.bmc_that_is_silent(site)):
        before = called(site)
        await machine.asked("delete")
        assert ((await layers(machine))[0], called(site)) == ("deleted", before)


@row(
    "C02",
    theirs="NodeLocked while it is verified",
    ours="the delete cancels the verification, and the node is deleted",
    better="no client waits for a dead BMC or gets a 409",
)
async def deleted_while_verifying(site: Site) -> None:
    machine = await site.verifying(await site.with_bmc(auto_manage=False))
    await machine.tell("delete")
    await site.cut_short()
    assert (await layers(machine))[0] == "deleted"


@row("C04", theirs="refused in active", ours="the same; the reason names other intents")
async def delete_in_active(site: Site) -> None:
    assert "submit drain" in await refused(await adoption.adopted_without_an_agent(site), "delete")


@row(
    "C07",
    theirs="deleted in active, if in maintenance",
    ours="refused, even during a pause",
    better="a pause must not replace a decommission",
)
async def delete_in_active_while_paused(site: Site) -> None:
    machine = await (await adoption.adopted_without_an_agent(site)).asked("pause", reason="fire drill")
    await refused(machine, "delete")


@row("C08", theirs="deleted although the driver fails to load", ours="deleted although the credential does not resolve")
async def deleted_with_a_broken_credential(site: Site) -> None:
    site.bmc.fail(BmcError(BmcFailure.INCOMPLETE, "no such file", dialled=False))
    machine = await (await site.with_bmc()).asked("delete")
    assert (await layers(machine))[0] == "deleted"


@row(
    "C09",
    theirs="a deleted row releases nothing",
    ours="no controller lists the deleted node, and no commit is refused",
)
async def nothing_is_left_to_run(site: Site) -> None:
    await (await site.with_bmc()).asked("delete")
    with anyio.fail_after(PATIENCE):  # the controller removes a mark shortly after the end of the step
        while await site.conn.fetchval("SELECT count(*) FROM farrier.list_shards('node', $1)", list(range(SHARDS))):
            await anyio.lowlevel.checkpoint()


@row("C11", theirs="no power pass in adopt failed", ours="the same")
async def no_reads_after_an_adoption_failed(site: Site) -> None:
    await adoption.adoption_that_gets_no_answer(site)
    before = called(site)
    await site.wait(10 * MINUTE)
    assert called(site) == before


@row("C12", theirs="no power pass in maintenance", ours="the same during a pause")
async def no_reads_while_paused(site: Site) -> None:
    await (await site.with_bmc()).asked("pause", reason="fire drill")
    before = called(site)
    await site.wait(10 * MINUTE)
    assert called(site) == before


@row("C14", theirs="nothing is written when power is as recorded", ours="no history and no outcome; only power_at")
async def power_is_as_it_was(site: Site) -> None:
    machine = await site.with_bmc()
    await site.wait(2 * MINUTE)
    moves, outcome = await machine.moves(), (await machine.look())["outcome"]
    before = len(site.bmc.reads)
    await site.wait(2 * MINUTE)
    assert len(site.bmc.reads) > before
    assert (await machine.moves(), (await machine.look())["outcome"]) == (moves, outcome)


@row("C17", theirs="counter 1, state unchanged", ours="the same, with class and text")
async def power_cannot_be_read(site: Site) -> None:
    machine = await site.with_bmc()
    site.bmc.fail(NO_ROUTE)
    await site.wait(2 * MINUTE)
    bmc = await machine.bmc()
    assert bmc["sync_failures"] >= 1 and bmc["sync_failure"] == "unreachable"
    assert (await layers(machine))[1] == "manageable"


@row("C18", theirs="the record changes, or power is switched if so configured", ours="the same, for each node")
async def power_is_not_as_it_was(site: Site) -> None:
    observed = await (await site.active()).asked("set_bmc", address="https://10.0.0.1", credential="env:BMC")
    enforced = await (await site.active()).asked("set_bmc", address="https://10.0.0.2", credential="env:BMC")
    await enforced.asked("set_power", power="on", enforce=True)
    reads(site, power=PowerState.OFF)
    site.bmc.powers.clear()
    await site.wait(2 * MINUTE)
    assert (await observed.bmc())["power"] == "off"
    switched = {target.address: wanted for target, wanted, _ in site.bmc.powers}
    assert switched == {"https://10.0.0.2": PowerRequest.ON}


@row("C22", theirs="a sync overwrites no newer change", ours="the read is cancelled, and its result not used")
async def details_removed_during_a_read(site: Site) -> None:
    machine = await site.with_bmc()
    site.bmc.hold()
    await site.db.advance(2 * MINUTE)
    site.wake()
    await site.bmc.called()
    await machine.tell("clear_bmc")
    await site.cut_short()
    assert (await layers(machine))[1] == "error"
    assert "power_at" not in await machine.bmc()


@row("C23", "C24", theirs="a good read clears fault and error", ours="the same, without an intent")
async def power_is_read_again(site: Site) -> None:
    machine = await site.with_bmc()
    site.bmc.fail(NO_ROUTE)
    await site.wait(2 * MINUTE)
    assert await errors(machine)
    site.bmc.recover()
    await site.wait(6 * MINUTE)
    assert not await errors(machine)
