"""Paths through an adoption; see `paths`. The first verification records the machine; then the node is adopted."""

from __future__ import annotations

from uuid import uuid4

from msgspec.structs import replace

from farrier.model.machine.bmc import BmcError, BmcFailure, BmcReading
from tests.support import paths_of_jobs
from tests.support.fake_bmc import READING
from tests.support.paths import MANAGEMENT, ONBOARDING, STATUS, takes
from tests.support.site import Machine, Site


def another_machine() -> BmcReading:
    """The reading of a BMC behind which another machine was put."""
    return BmcReading(
        power=READING.power,
        system_path=READING.system_path,
        credential_version="v1",
        serial="SN-9",
        uuid="9999a8c4-0001-11ec-9621-0242ac130002",
        macs=("aa:bb:cc:00:09:99",),
    )


def with_version(version: str) -> BmcReading:
    """The reading of a BMC with another version of the credential."""
    return replace(READING, credential_version=version)


@takes(MANAGEMENT, "manageable", "adopting", "intent")
@takes(MANAGEMENT, "adopting", "manageable", "step: adopt")
@takes(STATUS, "enrolling", "active", "step: adopt")
@takes(ONBOARDING, "running", "reconciled", "step: adopt")
async def adopted_without_an_agent(site: Site) -> Machine:
    return await (await site.with_bmc(agentless=True)).asked("adopt")


@takes(MANAGEMENT, "adopting", "manageable", "step: adopt")
@takes(STATUS, "enrolling", "active", "stage: wait_for_agent_enrollment")
@takes(ONBOARDING, "running", "reconciled", "stage: wait_for_agent_enrollment")
async def adopted_before_its_agent_enrols(site: Site) -> Machine:
    machine = await (await site.with_bmc()).asked("adopt")
    return await (await machine.enroll()).beat()


@takes(STATUS, "bootstrap_issued", "enrolling", "intent")
async def adopted_with_a_bootstrap_token(site: Site) -> Machine:
    token = str(uuid4())
    machine = await (await site.with_bmc(bootstrap_token=token)).asked("adopt")
    return await (await machine.enroll(token)).beat()


@takes(MANAGEMENT, "manageable", "adopting", "stage: resolve_power_credentials")
async def onboarded_in_mode_adopt(site: Site) -> Machine:
    return await (await site.with_bmc(agentless=True, auto_manage=False)).asked("onboard", mode="adopt")


@takes(MANAGEMENT, "adopting", "adopt_failed", "step: adopt")
@takes(ONBOARDING, "running", "failed_manual_intervention", "step: adopt")
async def adoption_that_gets_no_answer(site: Site) -> Machine:
    machine = await site.with_bmc(agentless=True)
    site.bmc.fail(BmcError(BmcFailure.UNREACHABLE, "no route"))
    return await machine.asked("adopt")


@takes(STATUS, "enrolling", "quarantined", "step: adopt")
async def adoption_of_another_machine(site: Site) -> Machine:
    machine = await site.with_bmc(agentless=True)
    site.bmc.script = lambda _target: another_machine()
    return await machine.asked("adopt")


@takes(MANAGEMENT, "adopt_failed", "adopting", "intent")
@takes(ONBOARDING, "failed_manual_intervention", "running", "intent")
async def adopted_at_the_second_attempt(site: Site) -> Machine:
    machine = await adoption_that_gets_no_answer(site)
    site.bmc.recover()
    return await machine.asked("adopt")


@takes(MANAGEMENT, "adopt_failed", "adopting", "stage: resolve_power_credentials")
async def adopted_by_a_retry_of_the_stage(site: Site) -> Machine:
    machine = await adoption_that_gets_no_answer(site)
    site.bmc.recover()
    return await machine.asked("retry_stage")


@takes(STATUS, "quarantined", "active", "step: adopt")
async def adopted_out_of_quarantine(site: Site) -> Machine:
    machine = await adoption_of_another_machine(site)
    site.bmc.recover()
    return await machine.asked("adopt")


@takes(MANAGEMENT, "adopt_failed", "verifying", "intent")
@takes(ONBOARDING, "failed_manual_intervention", "cancelled", "intent")
async def adoption_that_is_given_up(site: Site) -> Machine:
    machine = await adoption_that_gets_no_answer(site)
    site.bmc.recover()
    return await machine.asked("manage")


@takes(MANAGEMENT, "adopt_failed", "error", "intent")
async def details_removed_after_an_adoption_failed(site: Site) -> Machine:
    return await (await adoption_that_gets_no_answer(site)).asked("clear_bmc")


@takes(MANAGEMENT, "adopting", "error", "intent")
async def details_removed_while_adopting(site: Site) -> Machine:
    machine = await site.adopting(await site.with_bmc(agentless=True))
    await machine.tell("clear_bmc")
    await site.cut_short()
    return machine


@takes(MANAGEMENT, "adopting", "adopt_failed", "intent")
@takes(ONBOARDING, "running", "cancelled", "intent")
async def adoption_that_is_cancelled(site: Site) -> Machine:
    machine = await site.adopting(await site.with_bmc(agentless=True))
    await machine.tell("cancel")
    await site.cut_short()
    return machine


EVERY_PATH = paths_of_jobs.EVERY_PATH
"""All paths, now that this module has added its own."""
