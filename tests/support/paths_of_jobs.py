"""Paths through onboarding, decommission and management; see `paths`."""

from __future__ import annotations

from farrier.model.machine.bmc import BmcError, BmcFailure
from tests.support.paths import (
    DECOMMISSION,
    MANAGEMENT,
    ONBOARDING,
    SCENARIOS,
    drain_that_fails_for_good,
    takes,
    uninstall_that_fails,
)
from tests.support.site import MINUTE, SECOND, Machine, Site

# --- onboarding


@takes(ONBOARDING, "pending", "cancelled", "intent")
async def cancelled_before_it_has_a_mode(site: Site) -> Machine:
    return await (await site.register()).asked("cancel")


@takes(ONBOARDING, "running", "cancelled", "intent")
async def cancelled_while_it_waits(site: Site) -> Machine:
    return await (await site.enrolled()).asked("cancel")


@takes(ONBOARDING, "running", "failed_retryable", "stage: wait_for_agent_enrollment")
async def no_agent_in_time(site: Site) -> Machine:
    machine = await (await site.register()).asked("onboard", mode="manual")
    await site.wait(31 * MINUTE)
    return machine


@takes(ONBOARDING, "failed_retryable", "running", "timer: back-off")
async def next_attempt(site: Site) -> Machine:
    machine = await no_agent_in_time(site)
    await site.wait(31 * SECOND)
    return machine


@takes(ONBOARDING, "failed_retryable", "running", "intent")
async def attempt_now(site: Site) -> Machine:
    return await (await no_agent_in_time(site)).asked("retry_stage")


@takes(ONBOARDING, "failed_retryable", "cancelled", "intent")
async def cancelled_between_attempts(site: Site) -> Machine:
    return await (await no_agent_in_time(site)).asked("cancel")


@takes(ONBOARDING, "failed_retryable", "failed_manual_intervention", "intent")
async def frozen_between_attempts(site: Site) -> Machine:
    return await (await no_agent_in_time(site)).asked("mark_manual_intervention_required")


@takes(ONBOARDING, "running", "failed_manual_intervention", "stage: wait_for_agent_enrollment")
async def ssh_seed_fails_three_times(site: Site) -> Machine:
    machine = await site.enrolled()
    for _ in range(3):
        await machine.beat(ssh_seed="failed")
    return machine


@takes(ONBOARDING, "failed_manual_intervention", "cancelled", "intent")
async def given_up(site: Site) -> Machine:
    return await (await ssh_seed_fails_three_times(site)).asked("cancel")


@takes(ONBOARDING, "failed_manual_intervention", "reconciled", "intent")
async def observed_to_be_healthy(site: Site) -> Machine:
    machine = await (await ssh_seed_fails_three_times(site)).beat()
    return await machine.asked("adopt_observed_state")


@takes(ONBOARDING, "failed_retryable", "reconciled", "intent")
async def healthy_between_attempts(site: Site) -> Machine:
    machine = await (await no_agent_in_time(site)).enroll()
    return await asked_as_it_beats(machine, "adopt_observed_state")


@takes(ONBOARDING, "running", "reconciled", "intent")
async def healthy_before_the_stage_saw_it(site: Site) -> Machine:
    return await asked_as_it_beats(await site.enrolled(), "adopt_observed_state")


@takes(ONBOARDING, "running", "compensating", "intent")
@takes(ONBOARDING, "compensating", "pending", "rule: compensating")
async def begun_anew(site: Site) -> Machine:
    return await (await site.enrolled()).asked("restart_clean")


@takes(ONBOARDING, "failed_retryable", "compensating", "intent")
async def begun_anew_between_attempts(site: Site) -> Machine:
    return await (await no_agent_in_time(site)).asked("restart_clean")


@takes(ONBOARDING, "failed_manual_intervention", "compensating", "intent")
async def begun_anew_by_an_operator(site: Site) -> Machine:
    return await (await ssh_seed_fails_three_times(site)).asked("restart_clean")


@takes(ONBOARDING, "compensating", "cancelled", "rule: compensating")
async def undo_that_is_to_be_the_end(site: Site) -> Machine:
    return await asked_together(await site.enrolled(), "restart_clean", "cancel")


@takes(ONBOARDING, "compensating", "failed_manual_intervention", "intent")
async def quarantined_during_the_undo(site: Site) -> Machine:
    machine = await site.enrolled()
    answers = await machine.ask_together(("restart_clean", {}), ("quarantine", {"reason": "wrong rack"}))
    assert [answer.status for answer in answers] == ["accepted", "accepted"]
    return machine


# --- decommission


@takes(DECOMMISSION, "pending", "cancelled", "intent")
async def cancelled_before_it_began(site: Site) -> Machine:
    return await asked_together(await site.active(), "drain", "cancel")


@takes(DECOMMISSION, "failed_retryable", "running", "timer: back-off")
async def uninstall_is_tried_again(site: Site) -> Machine:
    machine = await uninstall_that_fails(site)
    await site.wait(31 * SECOND)
    return machine


@takes(DECOMMISSION, "failed_retryable", "cancelled", "intent")
async def removal_is_given_up(site: Site) -> Machine:
    return await (await uninstall_that_fails(site)).asked("cancel")


@takes(DECOMMISSION, "failed_retryable", "failed_manual_intervention", "intent")
async def removal_is_frozen(site: Site) -> Machine:
    return await (await uninstall_that_fails(site)).asked("mark_manual_intervention_required")


@takes(DECOMMISSION, "failed_retryable", "compensating", "intent")
async def removal_begins_anew(site: Site) -> Machine:
    return await (await uninstall_that_fails(site)).asked("restart_clean")


@takes(DECOMMISSION, "failed_manual_intervention", "cancelled", "intent")
async def failed_drain_is_given_up(site: Site) -> Machine:
    return await (await drain_that_fails_for_good(site)).asked("cancel")


@takes(DECOMMISSION, "failed_manual_intervention", "compensating", "intent")
async def failed_drain_begins_anew(site: Site) -> Machine:
    return await (await drain_that_fails_for_good(site)).asked("restart_clean")


@takes(DECOMMISSION, "running", "compensating", "intent")
@takes(DECOMMISSION, "compensating", "pending", "rule: compensating")
async def drain_begins_anew(site: Site) -> Machine:
    return await (await site.draining()).asked("restart_clean")


@takes(DECOMMISSION, "compensating", "cancelled", "rule: compensating")
async def undone_drain_is_to_be_the_end(site: Site) -> Machine:
    return await asked_together(await site.draining(), "restart_clean", "cancel")


# --- management


@takes(MANAGEMENT, "unmanaged", "enroll", "intent")
async def details_are_given(site: Site) -> Machine:
    return await (await site.register()).asked("set_bmc", address="https://details-are-given.example")


@takes(MANAGEMENT, "enroll", "verifying", "rule: auto_manage")
@takes(MANAGEMENT, "verifying", "manageable", "step: verify")
async def managed_by_itself(site: Site) -> Machine:
    return await site.with_bmc()


@takes(MANAGEMENT, "enroll", "verifying", "intent")
async def managed_when_asked(site: Site) -> Machine:
    return await (await site.with_bmc(auto_manage=False)).asked("manage")


@takes(MANAGEMENT, "verifying", "enroll", "step: verify")
async def bmc_that_is_silent(site: Site) -> Machine:
    site.bmc.fail(BmcError(BmcFailure.UNREACHABLE, "no route"))
    return await site.with_bmc()


@takes(MANAGEMENT, "verifying", "enroll", "intent")
async def edited_while_verifying(site: Site) -> Machine:
    machine = await site.verifying(await site.with_bmc(auto_manage=False))
    await machine.tell("set_bmc", credential="env:OTHER")
    await site.cut_short()
    return machine


@takes(MANAGEMENT, "verifying", "error", "intent")
async def cleared_while_verifying(site: Site) -> Machine:
    machine = await site.verifying(await site.with_bmc(auto_manage=False))
    await machine.tell("clear_bmc")
    await site.cut_short()
    return machine


@takes(MANAGEMENT, "manageable", "verifying", "intent")
async def new_credential(site: Site) -> Machine:
    return await (await site.with_bmc()).asked("set_bmc", credential="env:OTHER")


@takes(MANAGEMENT, "manageable", "error", "intent")
async def cleared(site: Site) -> Machine:
    return await (await site.with_bmc()).asked("clear_bmc")


@takes(MANAGEMENT, "enroll", "error", "intent")
async def cleared_before_it_was_managed(site: Site) -> Machine:
    return await (await bmc_that_is_silent(site)).asked("clear_bmc")


@takes(MANAGEMENT, "error", "enroll", "intent")
async def given_again(site: Site) -> Machine:
    return await (await cleared(site)).asked("set_bmc", credential="env:OTHER")


# --- parts


async def asked_together(machine: Machine, *actions: str) -> Machine:
    answers = await machine.ask_together(*((action, {}) for action in actions))
    assert [answer.status for answer in answers] == ["accepted"] * len(actions)
    return machine


async def asked_as_it_beats(machine: Machine, action: str) -> Machine:
    answers = await machine.ask_together((action, {}), beat=True)
    assert answers[0].status == "accepted"
    return machine


EVERY_PATH = SCENARIOS
"""All paths, now that this module has added its own; `paths_of_adoption` adds more."""
