"""Rows of Metal3: unmanaged, registering and credentials (D), externally provisioned (E), pause and back-off (F)."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise

import pytest

from farrier.model.machine.bmc import BmcError, BmcFailure, backoff
from farrier.model.node.layers import OnboardingMode
from farrier.model.node.stages import PATHS
from tests.support import paths_of_adoption as adoption
from tests.support import paths_of_jobs as jobs
from tests.support import pg
from tests.support.acceptance import called, errors, layers, refused, row
from tests.support.fake_bmc import READING
from tests.support.site import HOUR, MINUTE, SECOND, Site

INCOMPLETE = BmcError(BmcFailure.INCOMPLETE, "credential env:BMC: has no password", dialled=False)
REFUSED = BmcError(BmcFailure.AUTH, "401", credential_version="v2")


@row("D01", theirs="unmanaged, no error, no message", ours="the same, for ever")
async def no_details(site: Site) -> None:
    machine = await site.register()
    await site.wait(HOUR)
    assert ((await layers(machine))[1], await errors(machine), called(site)) == ("unmanaged", set(), 0)


@row("D02", "D03", theirs="unmanaged, with any annotations", ours="the same during a pause")
async def no_details_and_paused(site: Site) -> None:
    machine = await (await site.register()).asked("pause", reason="fire drill")
    assert ((await layers(machine))[1], await errors(machine)) == ("unmanaged", set())


@row("D04", "D09", theirs="registering, then an error", ours="enroll, class incomplete, no connection")
async def address_alone(site: Site) -> None:
    machine = await site.register(bmc_address="https://10.0.0.1")
    assert ((await layers(machine))[1], (await machine.bmc())["failure"], called(site)) == ("enroll", "incomplete", 0)


@row("D05", "D10", theirs="registering, then an error", ours="enroll, class incomplete, no connection")
async def credential_alone(site: Site) -> None:
    machine = await site.register(bmc_credential="env:BMC")
    assert ((await layers(machine))[1], (await machine.bmc())["failure"], called(site)) == ("enroll", "incomplete", 0)


@row("D07", "D08", theirs="an error, without retry", ours="class incomplete, naming the missing part; no login counts")
async def secret_without_its_parts(site: Site) -> None:
    site.bmc.fail(INCOMPLETE)
    bmc = await (await site.with_bmc()).bmc()
    assert (bmc["failure"], bmc["last_error"]) == ("incomplete", "credential env:BMC: has no password")
    assert "tries" not in bmc


@row("D13", theirs="error, then no error; not provisioned again", ours="the same; the status does not change")
async def secret_broken_and_repaired(site: Site) -> None:
    machine = await adoption.adopted_without_an_agent(site)
    site.bmc.fail(REFUSED)
    await machine.asked("manage")
    assert (await machine.bmc())["failure"] == "auth"
    site.bmc.recover()
    await machine.asked("manage")
    assert (await layers(machine))[1] == "manageable"
    assert not await errors(machine)
    assert await machine.path() == ["enrolling", "active"]


@row("D14", theirs="the good credential is the new one", ours="the same, without a change of status")
async def second_secret(site: Site) -> None:
    machine = await site.with_bmc()
    site.bmc.script = lambda _target: adoption.with_version("v2")
    await machine.asked("set_bmc", credential="env:SECOND")
    bmc = await machine.bmc()
    assert (bmc["tried_version"], bmc["good_version"]) == ("v2", "v2")
    assert site.bmc.calls[-1].credential == "env:SECOND"


@row("D15", theirs="the good credential stays the old one", ours="the same")
async def second_secret_that_is_wrong(site: Site) -> None:
    machine = await site.with_bmc()
    site.bmc.fail(REFUSED)
    await machine.asked("set_bmc", credential="env:SECOND")
    bmc = await machine.bmc()
    assert (bmc["tried_version"], bmc["good_version"]) == ("v2", "v1")


@row("D16", theirs="the tried credential is recorded although it fails", ours="the same")
async def tried_is_recorded(site: Site) -> None:
    site.bmc.fail(REFUSED)
    assert (await (await site.with_bmc()).bmc())["tried_version"] == "v2"


@row("D17", theirs="nothing is written without a change", ours="the same")
async def nothing_new(site: Site) -> None:
    machine = await site.register(bmc_address="https://10.0.0.1")
    version = "SELECT version FROM farrier.nodes WHERE id = $1"
    before = await site.conn.fetchval(version, machine.id)
    await site.wait(5 * MINUTE)
    assert await site.conn.fetchval(version, machine.id) == before


@row("D18", "D19", "D23", theirs="the error and its counter are cleared by a success", ours="the same")
async def success_clears(site: Site) -> None:
    machine = await jobs.bmc_that_is_silent(site)
    site.bmc.recover()
    await site.wait(31 * SECOND)
    assert ((await layers(machine))[1], await errors(machine)) == ("manageable", set())


@row("D20", theirs="another version of the secret is another credential", ours="the same, by the next read")
async def rotated(site: Site) -> None:
    machine = await site.with_bmc()
    verified = len(site.bmc.calls)
    site.secrets.current = "v2"
    site.bmc.script = lambda _target: adoption.with_version("v2")
    await site.wait(2 * MINUTE)
    assert len(site.bmc.calls) == verified + 1
    assert (await machine.bmc())["good_version"] == "v2"


@row("D22", theirs="count 1 and the cause", ours="the same, with a class")
async def access_fails(site: Site) -> None:
    bmc = await (await jobs.bmc_that_is_silent(site)).bmc()
    assert (bmc["failures"], bmc["last_error"], bmc["failure"]) == (1, "no route", "unreachable")


@row(
    "D25",
    theirs="another address is refused, except while registering or detached",
    ours="accepted and verified, without a change of status",
    better="a BMC that moves takes one intent and interrupts nothing else",
)
async def another_address(site: Site) -> None:
    machine = await adoption.adopted_without_an_agent(site)
    await machine.asked("set_bmc", address="https://10.0.9.1")
    assert await layers(machine) == ("active", "manageable")
    assert site.bmc.calls[-1].address == "https://10.0.9.1"


@row("D29", theirs="new credentials are used at once while verifying", ours="the same")
async def edited_while_verifying(site: Site) -> None:
    machine = await jobs.edited_while_verifying(site)
    await machine.asked("manage")
    assert site.bmc.calls[-1].credential == "env:OTHER"


@row("D30", theirs="a conflict that names the other node", ours="its registration is refused, with the name")
async def mac_address_of_another(site: Site) -> None:
    await site.register("gpu-1", macs=["aa:bb:cc:00:00:01"])
    with pytest.raises(pg.PostgresError, match="gpu-1"):
        await site.register("gpu-2", macs=["AA-BB-CC-00-00-01"])


@row("E01", theirs="never inspected, never deployed", ours="the same: no power change, no installation")
async def adopted_and_left_alone(site: Site) -> None:
    machine = await adoption.adopted_without_an_agent(site)
    await site.wait(10 * MINUTE)
    assert not site.bmc.powers
    assert set(await machine.path("onboarding_stage")) <= set(PATHS[OnboardingMode.ADOPT])


@row(
    "E04",
    theirs="an edit of a flag wipes the machine",
    ours="no edit of a detail changes the status",
    better="only an intent that names it erases a machine",
)
async def details_of_an_adopted_node_removed(site: Site) -> None:
    machine = await (await adoption.adopted_without_an_agent(site)).asked("clear_bmc")
    assert await layers(machine) == ("active", "error")
    assert not site.bmc.powers


@row("E06", theirs="refused during another onboarding", ours="the same, naming the workflow")
async def adopt_beside_another_onboarding(site: Site) -> None:
    machine = await (await site.with_bmc()).asked("onboard", mode="manual")
    assert "is live (running, mode manual)" in await refused(machine, "adopt")


@row(
    "E07",
    theirs="a transient error: the client repeats the request",
    ours="refused in enroll; pending during a verification, then answered",
    better="an intent that only has to wait stays pending, so the client need not repeat it",
)
async def adopt_before_it_is_manageable(site: Site) -> None:
    machine = await site.with_bmc(agentless=True, auto_manage=False)
    assert "manageable" in await refused(machine, "adopt")
    await site.verifying(machine)
    intent = await machine.tell("adopt")
    site.bmc.let_go()
    await site.settled()
    assert (await site.answer(intent)).status == "accepted"
    assert await layers(machine) == ("active", "manageable")


@row("E09", theirs="waits during an adoption", ours="one adoption at a time; the refusal of another names it")
async def adopt_while_adopting(site: Site) -> None:
    machine = await site.with_bmc(agentless=True)
    first, second = await machine.ask_together(("adopt", {}), ("adopt", {}))
    assert (first.status, second.status) == ("accepted", "rejected")
    assert "mode adopt" in (second.reason or "")


@row("E13", theirs="count 1 and the cause", ours="the same, with a class")
async def adoption_fails(site: Site) -> None:
    bmc = await (await adoption.adoption_that_gets_no_answer(site)).bmc()
    assert (bmc["failures"], bmc["last_error"], bmc["failure"]) == (1, "no route", "unreachable")


@row("E14", theirs="a failed adoption undeploys nothing", ours="the same")
async def adoption_that_fails_undoes_nothing(site: Site) -> None:
    machine = await adoption.adoption_that_gets_no_answer(site)
    await site.wait(HOUR)
    assert await layers(machine) == ("enrolling", "adopt_failed")
    assert not site.bmc.powers


@row(
    "F07",
    theirs="a detach is ignored while registering",
    ours="a pause stops verifying at once",
    better="farrier does nothing to a paused node, and does not even read its BMC",
)
async def paused_while_verifying(site: Site) -> None:
    machine = await site.verifying(await site.with_bmc(auto_manage=False))
    await machine.tell("pause", reason="fire drill")
    await site.cut_short()
    before = called(site)
    await site.wait(10 * MINUTE)
    assert ((await layers(machine))[1], called(site)) == ("enroll", before)


@row("F13", theirs="deleted: normal, without BMC, with bad credentials", ours="the same, without a call to a BMC")
async def deleted_in_every_way(site: Site) -> None:
    for machine in (await site.register(), await site.with_bmc(), await jobs.bmc_that_is_silent(site)):
        before = called(site)
        await machine.asked("delete")
        assert ((await layers(machine))[0], called(site)) == ("deleted", before)


@row(
    "F20",
    theirs="the back-off never shrinks, and grows to hours",
    ours="the back-off never shrinks, and grows to 30 minutes at most",
    better="a BMC that recovers is noticed within minutes, and an intent retries at once",
)
async def pauses(_site: Site) -> None:
    for failure in BmcFailure:
        steps = [pause for count in (*range(1, 11), 109) if (pause := backoff(failure, count)) is not None]
        assert all(one <= other for one, other in pairwise(steps))
        assert all(step <= timedelta(minutes=30) for step in steps)


@row("F21", theirs="paused at creation: nothing is done", ours="the same")
async def paused_at_registration(site: Site) -> None:
    async with site.conn.transaction():
        await site.conn.execute(
            "SELECT farrier.register_node('gpu-1', bmc_address => 'https://10.0.0.1', bmc_credential => 'env:BMC')"
        )
        await site.conn.execute(
            "INSERT INTO farrier.intents (node, action, params, api_version)"
            " VALUES ('gpu-1', 'pause', '{\"reason\": \"fire drill\"}', 2)"
        )
    await site.wait(HOUR)
    management = await site.conn.fetchval("SELECT management FROM farrier.nodes")
    assert (management, called(site), READING.serial) == ("enroll", 0, "SN-1")
