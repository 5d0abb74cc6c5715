"""The manual-intervention triggers, each reached by the real stage on a simulated region: the workflow waits
for an operator, the node has a safe status, and advice is shown."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta

import msgspec
import pytest

from farrier.config.sites import NetworkSite
from farrier.handlers.node.changes import with_fields
from farrier.model.advice.explanation import explain
from farrier.model.maas.changes import NewMachine, PowerAccess
from farrier.model.node.conditions import ONBOARDING_FAILED, Source, find, quarantining, stated
from farrier.model.node.failures import FAILURES, MANUAL, UNSAFE, FailureClass
from farrier.model.node.layers import NodeStatus as N
from farrier.model.node.layers import WorkflowStatus as W
from farrier.model.node.limits import Limits
from farrier.model.node.snapshot import Agent, Memo
from farrier.model.node.stages import OnboardingStage as O
from farrier.sim.maas import OPERATOR, DeployFate, Durations, Hardware, Nature, Region, Status
from farrier.sim.maas.hardware import nvme
from tests.support.handled import Handled
from tests.support.machines import machine_in
from tests.support.nodes import SECOND
from tests.support.stages import Stand, stand
from tests.unit.model.test_clocks import workflow as shown_workflow
from tests.unit.model.test_explanation import detail

F = FailureClass
# A deployment that fails takes MAAS an hour; here a minute.
FACTOR = 60
WITHIN = timedelta(hours=3)


async def two_machines_match(at: Stand) -> Handled:
    for number, (hostname, mac) in enumerate([(at.node.name, "52:54:00:00:00:99"), ("found-it", at.node.macs[0])]):
        power = PowerAccess(address=f"10.0.9.{number}", username="root", password="calvin")
        await at.world.client.create(
            NewMachine(hostname=hostname, mac_addresses=(mac,), power=power, description="by hand")
        )
    at.onboards(O.CREATE_OR_FIND_IN_MAAS)
    return Handled(at, bmc=True)


async def there_is_no_boot_disk(at: Stand) -> Handled:
    await machine_in(at, Status.READY, Hardware(disks=(nvme(0), nvme(1))))
    at.onboards(O.CONFIGURE_STORAGE)
    return Handled(at)


async def it_boots_on_another_vlan(at: Stand) -> Handled:
    at.use(network=NetworkSite(pxe_subnet="10.30.0.0/16"))
    machine = await machine_in(at, Status.READY)
    for interface in machine.interfaces:
        interface.links.clear()
    at.onboards(O.ENSURE_PXE_INTERFACE_AUTO)
    return Handled(at)


async def the_machine_was_deleted(at: Stand) -> Handled:
    machine = await machine_in(at, Status.READY)
    at.region.forget(machine)
    at.onboards(O.CONFIGURE_STORAGE)
    return Handled(at)


async def it_reaches_no_datasource(at: Stand) -> Handled:
    machine = await machine_in(at, Status.READY)
    at.region.natures[machine.system_id] = Nature(deploy=DeployFate.NO_DATASOURCE)
    at.onboards(O.RENDER_CLOUD_INIT)
    return Handled(at)


async def it_never_syncs(at: Stand) -> Handled:
    await machine_in(at, Status.DEPLOYED)
    limit = {"onboarding.running.wait_for_hardware_sync_healthy": timedelta(minutes=1)}
    at.policy = msgspec.structs.replace(at.policy, sla=limit)
    at.onboards(O.WAIT_FOR_HARDWARE_SYNC_HEALTHY, memo=Memo(deploys=1, deployed_at=at.now))
    return Handled(at)


async def its_seed_fails(at: Stand) -> Handled:
    await machine_in(at, Status.DEPLOYED)
    at.onboards(O.WAIT_FOR_AGENT_ENROLLMENT, memo=Memo(deploys=1, asked_at=at.now))
    heard = at.now + SECOND
    at.node = with_fields(at.node, agent=Agent(enrolled_at=heard, last_heartbeat_at=heard, ssh_seed_failures=3))
    return Handled(at)


async def another_user_holds_it(at: Stand) -> Handled:
    machine = await machine_in(at, Status.READY)
    machine.owner = OPERATOR.username
    at.onboards(O.CONFIGURE_STORAGE)
    return Handled(at)


TRIGGERS: Mapping[FailureClass, Callable[[Stand], Awaitable[Handled]]] = {
    F.DISCOVERY_CONFLICT: two_machines_match,
    F.BOSS_DISK_NOT_FOUND: there_is_no_boot_disk,
    F.PXE_INTERFACE_UNFIXABLE: it_boots_on_another_vlan,
    F.MACHINE_DELETED_UPSTREAM: the_machine_was_deleted,
    F.DATASOURCE_FAILED_REPEATEDLY: it_reaches_no_datasource,
    F.HARDWARE_SYNC_FAILED_REPEATEDLY: it_never_syncs,
    F.SSH_SEED_FAILED_REPEATEDLY: its_seed_fails,
    F.STATE_DISAGREEMENT: another_user_holds_it,
}


def test_every_trigger_of_the_model_is_reached_here() -> None:
    assert TRIGGERS.keys() == MANUAL


@pytest.mark.parametrize("failure", TRIGGERS, ids=str)
async def test_a_trigger_leaves_the_workflow_to_an_operator(failure: FailureClass) -> None:
    async with stand(Region(durations=Durations().shorter(FACTOR))) as at:
        it = await TRIGGERS[failure](at)
        assert await it.finish(WITHIN) is W.FAILED_MANUAL_INTERVENTION
        workflow = it.node.workflow
        assert workflow is not None and workflow.next_attempt_at is None
        assert (workflow.failure_class, bool(workflow.failure_detail)) == (failure, True)
        has_a_safe_status(it, failure)
        is_advised(it, failure)
        await nothing_happens_by_itself(it)


def has_a_safe_status(it: Handled, failure: FailureClass) -> None:
    if failure not in UNSAFE:
        assert it.node.status is N.ENROLLING
        return
    assert it.node.status is N.QUARANTINED
    assert find(quarantining(it.node.conditions), Source.WORKFLOW, ONBOARDING_FAILED) is not None


def is_advised(it: Handled, failure: FailureClass) -> None:
    """Assert the advice of `farrier node why`, which all other views of the node show, too."""
    workflow = it.node.workflow
    assert workflow is not None
    shown = shown_workflow(
        status=workflow.status,
        stage=workflow.stage,
        failure_class=workflow.failure_class,
        failure_detail=workflow.failure_detail,
    )
    said = explain(detail(status=it.node.status, workflow=shown, swept_at=it.stand.now), it.stand.now, Limits())
    assert said.advice.startswith(FAILURES[failure].advice.todo)
    assert any(str(failure) in error and (workflow.failure_detail or "?") in error for error in said.errors)


async def nothing_happens_by_itself(it: Handled) -> None:
    before, at = it.node.workflow, it.stand
    at.world.observed.requests.clear()
    at.now += timedelta(hours=2)
    await it.rest()
    assert it.node.workflow == before
    assert at.world.observed.operations == []


async def test_the_cause_of_a_quarantine_is_the_newest_failure() -> None:
    async with stand() as at:
        it = await there_is_no_boot_disk(at)
        old = stated(Source.WORKFLOW, ONBOARDING_FAILED, "what was wrong last week")
        at.node = with_fields(at.node, status=N.QUARANTINED, conditions=(old,))
        assert await it.finish(WITHIN) is W.FAILED_MANUAL_INTERVENTION
        noted = find(it.node.conditions, Source.WORKFLOW, ONBOARDING_FAILED)
        assert noted is not None and "no disk matches" in noted.message
