"""Cancel, restart_clean and delete of a deployment in every state of its machine: changes in MAAS, and the end."""

from __future__ import annotations

from datetime import timedelta

import pytest

from farrier.handlers.node.changes import with_fields
from farrier.handlers.node.maas import region
from farrier.handlers.node.onboarding import deployment
from farrier.model.intents.actions import Action
from farrier.model.maas.changes import Deploy, Release
from farrier.model.network.uses import NodeNetworks, SegmentUse
from farrier.model.node.layers import NodeStatus as N
from farrier.model.node.layers import OnboardingMode
from farrier.model.node.layers import WorkflowStatus as W
from farrier.model.node.snapshot import AfterUndo, Memo, Onboarding
from farrier.model.node.stages import DETOUR, PATHS
from farrier.model.node.stages import OnboardingStage as O
from farrier.model.node.writes import ForgetAgent, RevokeBootstrap, UseNetworks
from farrier.sim.maas import Status
from tests.support.handled import Handled
from tests.support.machines import created, machine_in
from tests.support.nodes import MARK
from tests.support.stages import Stand
from tests.support.undoing import ASKED, AT_REST, changes, forget, machine_of, standing

S = Status
HOUR = timedelta(hours=1)


# States of the machine at each stage, with the changes that the undo sends.
STAGES: list[tuple[O, Status, list[str]]] = [
    (O.CREATE_OR_FIND_IN_MAAS, S.NEW, []),
    (O.COMMISSION_NODE, S.NEW, []),
    (O.COMMISSION_NODE, S.FAILED_COMMISSIONING, []),
    (O.WAIT_FOR_READY, S.COMMISSIONING, ["abort"]),
    (O.WAIT_FOR_READY, S.TESTING, ["abort"]),
    (O.WAIT_FOR_READY, S.FAILED_COMMISSIONING, []),
    (O.WAIT_FOR_READY, S.FAILED_TESTING, []),
    (O.WAIT_FOR_READY, S.READY, []),
    (O.CONFIGURE_STORAGE, S.READY, []),
    (O.APPLY_ROCE_PHASE2, S.READY, []),
    (O.ENSURE_PXE_INTERFACE_AUTO, S.READY, []),
    (O.RENDER_CLOUD_INIT, S.READY, []),
    (O.DEPLOY_VIA_MAAS, S.READY, []),
    (O.DEPLOY_VIA_MAAS, S.ALLOCATED, ["release"]),
    (O.DEPLOY_VIA_MAAS, S.DEPLOYING, ["abort", "release"]),
    (O.WAIT_FOR_DEPLOYED, S.DEPLOYING, ["abort", "release"]),
    (O.WAIT_FOR_DEPLOYED, S.DEPLOYED, ["release"]),
    (O.WAIT_FOR_DEPLOYED, S.FAILED_DEPLOYMENT, ["release"]),
    (O.CLASSIFY_DEPLOY_FAILURE, S.FAILED_DEPLOYMENT, ["release"]),
    (O.RECOVER_FOR_DATASOURCE_RETRY, S.FAILED_DEPLOYMENT, ["release"]),
    (O.RECOVER_FOR_DATASOURCE_RETRY, S.RELEASING, []),
    (O.RECOVER_FOR_DATASOURCE_RETRY, S.RELEASING_FAILED, ["release"]),
    (O.RECOVER_FOR_DATASOURCE_RETRY, S.DISK_ERASING, []),
    (O.RECOVER_FOR_DATASOURCE_RETRY, S.FAILED_DISK_ERASING, ["release"]),
    (O.ENSURE_HARDWARE_SYNC_CONFIGURED, S.DEPLOYED, ["release"]),
    (O.WAIT_FOR_HARDWARE_SYNC_HEALTHY, S.DEPLOYED, ["release"]),
    (O.WAIT_FOR_AGENT_ENROLLMENT, S.DEPLOYED, ["release"]),
    (O.WAIT_FOR_AGENT_ENROLLMENT, S.BROKEN, []),
]
IDS = [f"{stage}-{status.name.lower()}" for stage, status, _ in STAGES]
# States that commissioning or a person left behind: the undo does not change them.
STAYS = (S.FAILED_COMMISSIONING, S.FAILED_TESTING, S.BROKEN)


def test_the_table_has_every_stage_that_may_have_changed_maas() -> None:
    path = PATHS[OnboardingMode.DEPLOY]
    later = set(path[path.index(O.CREATE_OR_FIND_IN_MAAS) :]) | DETOUR
    assert {stage for stage, _, _ in STAGES} == later


@pytest.mark.matrix(strength=1)
@pytest.mark.parametrize(("stage", "status", "asked"), STAGES, ids=IDS)
@pytest.mark.parametrize("node_status", [N.ENROLLING, N.QUARANTINED, N.RETIRED])
async def test_a_cancel_at_any_stage_leaves_a_machine_without_an_owner(
    slow: Stand, stage: O, status: Status, asked: list[str], node_status: N
) -> None:
    it = await standing(slow, stage, status, memo=ASKED)
    slow.node = with_fields(slow.node, status=node_status)
    assert await it.ask(Action.CANCEL) == "accepted"
    assert await it.finish() is W.CANCELLED
    assert changes(slow) == asked
    assert machine_of(slow) in ((status,) if status in STAYS else AT_REST)
    assert (it.node.status, it.node.workflow) == (node_status, None)
    assert it.node.maas_id is not None, "the machine stays in MAAS"


@pytest.mark.matrix(keep=7)
@pytest.mark.parametrize(("stage", "status", "asked"), STAGES, ids=IDS)
async def test_a_deletion_undoes_the_deployment_before_it_continues(
    slow: Stand, stage: O, status: Status, asked: list[str]
) -> None:
    it = await standing(slow, stage, status, memo=ASKED)
    assert await it.ask(Action.DELETE) == "accepted"
    for _ in range(60):
        if it.ended is not None:
            break
        it.pass_time()
        await it.rest()
    assert it.ended is not None and it.ended.status in (W.CANCELLED, W.COMPLETED)
    assert changes(slow)[: len(asked)] == asked
    assert it.node.deleting and it.node.status is not N.ENROLLING, "the node is being deleted"


@pytest.mark.matrix(keep=7)
@pytest.mark.parametrize(("stage", "status", "asked"), STAGES, ids=IDS)
async def test_a_clean_restart_undoes_the_deployment_and_keeps_only_the_number_of_deployments(
    slow: Stand, stage: O, status: Status, asked: list[str]
) -> None:
    known = Memo(deploys=1, datasource_retries=2, token="d1")
    it = await standing(slow, stage, status, memo=known, attempt=3)
    it.request(Action.RESTART_CLEAN)
    seen = await until_pending(it)
    assert changes(slow) == asked
    assert (seen.stage, seen.attempt, seen.failure_class) == (None, 1, None)
    assert seen.memo == Memo(deploys=2, disowned=2), "the next deployment's token needs another number"


async def until_pending(it: Handled) -> Onboarding:
    """Run up to the run that ends the undo; returns the workflow after it."""
    for _ in range(200):
        if not await it.run():
            it.pass_time()
        it.stand.world.clock.now += 1
        workflow = it.node.workflow
        assert isinstance(workflow, Onboarding)
        if workflow.status is W.PENDING:
            return workflow
    raise AssertionError(f"never undone: {it.node}")


# --- with nothing to undo yet


@pytest.mark.parametrize("stage", [O.LOAD_SITE_CONFIG, O.RESOLVE_POWER_CREDENTIALS])
async def test_a_cancel_before_the_first_change_in_maas_ends_at_once_without_a_request(slow: Stand, stage: O) -> None:
    it = await standing(slow, stage, S.READY)
    await it.ask(Action.CANCEL)
    assert it.status is W.CANCELLED
    assert slow.world.observed.operations == []


async def test_a_rerun_keeps_the_mark_of_changes_to_undo(slow: Stand) -> None:
    it = await standing(slow, O.WAIT_FOR_DEPLOYED, S.FAILED_DEPLOYMENT, status=W.FAILED_MANUAL_INTERVENTION, memo=ASKED)
    slow.node = with_fields(slow.node, intents=())
    slow.use(maas=None)  # so that the workflow stays at its first stage
    await it.ask(Action.RERUN)
    assert it.node.workflow is not None and it.node.workflow.stage is O.LOAD_SITE_CONFIG
    assert it.node.workflow.memo.touched


async def test_a_rerun_of_a_workflow_without_changes_in_maas_has_nothing_to_undo(slow: Stand) -> None:
    it = await standing(slow, O.LOAD_SITE_CONFIG, S.READY, status=W.FAILED_MANUAL_INTERVENTION)
    slow.use(maas=None)
    await it.ask(Action.RERUN)
    await it.ask(Action.CANCEL)
    assert it.status is W.CANCELLED
    assert slow.world.observed.operations == []


async def test_a_machine_whose_creation_response_was_lost_is_found_and_kept(slow: Stand) -> None:
    slow.onboards(O.CREATE_OR_FIND_IN_MAAS)
    machine = await created(slow, description=region.comment(slow.node, "create"))
    slow.node = with_fields(slow.node, maas_id=None, maas_created=False)
    it = Handled(slow)
    await it.ask(Action.CANCEL)
    assert it.status is W.CANCELLED
    assert (it.node.maas_id, it.node.maas_created) == (machine.system_id, True)


async def test_a_machine_of_another_user_with_the_same_name_is_not_assigned_by_the_undo(slow: Stand) -> None:
    await created(slow, description="theirs")
    slow.node = with_fields(slow.node, maas_id=None, maas_created=False)
    slow.onboards(O.CREATE_OR_FIND_IN_MAAS)
    it = Handled(slow)
    await it.ask(Action.CANCEL)
    assert (it.status, it.node.maas_id) == (W.CANCELLED, None)


@pytest.mark.parametrize("status", [S.READY, S.DEPLOYED, S.DEPLOYING, S.RESCUE_MODE, S.BROKEN])
async def test_a_created_machine_that_left_the_state_new_is_not_changed_by_the_undo(
    slow: Stand, status: Status
) -> None:
    machine = await machine_in(slow, status)
    slow.onboards(O.CREATE_OR_FIND_IN_MAAS)
    machine.description = region.comment(slow.node, "create")
    slow.node = with_fields(slow.node, maas_id=None, maas_created=False)
    forget(slow)
    it = Handled(slow)
    await it.ask(Action.CANCEL)
    assert (it.status, it.node.maas_id, changes(slow)) == (W.CANCELLED, None, [])


async def test_a_machine_of_a_workflow_with_the_same_id_in_another_database_is_not_undone(slow: Stand) -> None:
    """In a new database ids begin at 1 again, and the nodes may be registered in the same order."""
    machine = await machine_in(slow, S.DEPLOYED)
    slow.onboards(O.DEPLOY_VIA_MAAS, mark="0ddba11000000000", memo=ASKED)
    machine.description = f"farrier onboarding 11 {MARK}: create"
    forget(slow)
    it = Handled(slow)
    await it.ask(Action.CANCEL)
    assert it.status is W.FAILED_MANUAL_INTERVENTION
    slow.node = with_fields(slow.node, maas_id=None)
    await it.ask(Action.CANCEL)
    assert (it.status, it.node.maas_id, changes(slow), machine.status) == (W.CANCELLED, None, [], S.DEPLOYED)


async def test_a_deployment_without_events_is_not_undone(slow: Stand) -> None:
    it = await standing(slow, O.WAIT_FOR_DEPLOYED, S.DEPLOYED, memo=ASKED)
    slow.region.events.of(slow.node.maas_id).clear()
    await it.ask(Action.CANCEL)
    assert it.status is W.FAILED_MANUAL_INTERVENTION
    assert (changes(slow), machine_of(slow)) == ([], S.DEPLOYED)


async def test_a_deployment_whose_start_is_pages_of_events_back_is_undone(slow: Stand) -> None:
    it = await standing(slow, O.WAIT_FOR_DEPLOYED, S.DEPLOYED, memo=ASKED)
    for _ in range(deployment.MOST_EVENTS + 1):
        slow.region.note(slow.region.machines[slow.node.maas_id or ""], "Node status event")
    await it.ask(Action.CANCEL)
    assert await it.finish() is W.CANCELLED
    assert changes(slow) == ["release"]


async def test_an_old_deployment_of_another_client_with_farriers_key_is_not_undone(slow: Stand) -> None:
    it = await standing(slow, O.WAIT_FOR_DEPLOYED, S.DEPLOYED, memo=ASKED)
    client, machine_id = slow.world.client, slow.node.maas_id or ""
    await client.do(await client.machine(machine_id), Release(comment="by hand"))
    slow.pass_time(HOUR)
    await client.do(await client.machine(machine_id), Deploy(user_data="", comment="a tenant's"))
    slow.pass_time(HOUR)
    for _ in range(deployment.MOST_EVENTS + 1):
        slow.region.note(slow.region.machines[machine_id], "Node status event")
    forget(slow)
    await it.ask(Action.CANCEL)
    assert it.status is W.FAILED_MANUAL_INTERVENTION
    assert (changes(slow), machine_of(slow)) == ([], S.DEPLOYED)


async def test_a_candidate_that_was_not_assigned_is_not_changed_by_the_undo(slow: Stand) -> None:
    machine = await machine_in(slow, S.DEPLOYED)
    slow.node = with_fields(slow.node, maas_id=None, maas_created=False)
    slow.onboards(O.CREATE_OR_FIND_IN_MAAS, memo=Memo(candidate=machine.system_id))
    forget(slow)
    it = Handled(slow)
    await it.ask(Action.CANCEL)
    assert (it.status, it.node.maas_id) == (W.CANCELLED, None)
    assert slow.world.observed.operations == []


async def test_a_machine_that_was_deleted_needs_no_undo(slow: Stand) -> None:
    it = await standing(slow, O.WAIT_FOR_DEPLOYED, S.DEPLOYED, memo=ASKED)
    slow.region.forget(next(iter(slow.region.machines.values())))
    await it.ask(Action.CANCEL)
    assert it.status is W.CANCELLED


# --- repeated intents, and other effects


async def test_a_second_cancel_is_accepted_without_a_second_change(slow: Stand) -> None:
    it = await standing(slow, O.WAIT_FOR_DEPLOYED, S.DEPLOYED, memo=ASKED)
    assert [await it.ask(Action.CANCEL), await it.ask(Action.CANCEL)] == ["accepted", "accepted"]
    assert await it.finish() is W.CANCELLED
    assert changes(slow) == ["release"]


async def test_a_cancel_during_a_clean_restart_ends_the_workflow(slow: Stand) -> None:
    it = await standing(slow, O.WAIT_FOR_DEPLOYED, S.DEPLOYED, memo=ASKED)
    await it.ask(Action.RESTART_CLEAN)
    assert it.node.workflow is not None and it.node.workflow.after_undo is AfterUndo.RESTART
    await it.ask(Action.CANCEL)
    assert await it.finish() is W.CANCELLED


async def test_an_undo_revokes_the_bootstrap_token_and_the_agent(slow: Stand) -> None:
    it = await standing(slow, O.WAIT_FOR_AGENT_ENROLLMENT, S.DEPLOYED, memo=ASKED)
    await it.ask(Action.CANCEL)
    await it.finish()
    assert RevokeBootstrap() in it.written and ForgetAgent() in it.written


async def test_addresses_are_released_only_after_the_machine_is_released(slow: Stand) -> None:
    it = await standing(slow, O.WAIT_FOR_AGENT_ENROLLMENT, S.DEPLOYED, memo=ASKED)
    slow.node = with_fields(slow.node, networks=NodeNetworks(segments=(SegmentUse(name="lan", address="10.9.0.2"),)))
    await it.ask(Action.CANCEL)
    assert UseNetworks() not in it.written, "the machine is not released yet"
    assert await it.finish() is W.CANCELLED
    assert it.written.count(UseNetworks()) == 1


async def test_a_machine_that_is_not_released_keeps_its_addresses(slow: Stand) -> None:
    """The machine may still use them, so no other node may get them."""
    it = await standing(slow, O.WAIT_FOR_DEPLOYED, S.DEPLOYED, memo=ASKED)
    slow.node = with_fields(slow.node, networks=NodeNetworks(segments=(SegmentUse(name="lan", address="10.9.0.2"),)))
    assert slow.node.maas_id is not None
    slow.region.machines[slow.node.maas_id].locked = True
    await it.ask(Action.CANCEL)
    assert await it.finish() is W.FAILED_MANUAL_INTERVENTION
    await it.ask(Action.CANCEL)
    assert await it.finish() is W.CANCELLED
    assert UseNetworks() not in it.written


async def test_the_undo_does_not_read_maas_again_while_maas_releases_the_machine(slow: Stand) -> None:
    """Afterwards the undo waits for observations."""
    it = await standing(slow, O.WAIT_FOR_DEPLOYED, S.DEPLOYED, memo=ASKED)
    await it.ask(Action.CANCEL)
    slow.observe()
    forget(slow)
    for _ in range(5):
        await it.rest()
    assert slow.world.observed.operations == []
