"""What the region's evidence proves: for the stages of the cleaning, and for the return of the node."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from farrier.config.sites import CleaningSite
from farrier.handlers.node.changes import Done, Failed, with_fields, with_note, with_workflow
from farrier.model.node.conditions import UNPROVEN
from farrier.model.node.evidence import By, Cleaned, PowerCycle, Require
from farrier.model.node.failures import FailureClass as F
from farrier.model.node.layers import CleaningBy
from farrier.model.node.snapshot import TaskStatus, TaskType, WorkflowOptions
from farrier.model.node.stages import DecommissionStage as D
from tests.support.decommissions import fails, is_through, waits
from tests.support.nodes import NOW, task
from tests.support.stages import Stand
from tests.unit.handlers.decommission.test_cleaning_by_region import checked, released

COLD = PowerCycle(off_seen_at=NOW, on_seen_at=NOW + timedelta(minutes=1))


async def at_stage(stand: Stand, stage: D, power_cycle: PowerCycle | None, require: Require) -> Done | Failed:
    """Check the machine, and run a later stage with this power cycle in the evidence."""
    stand.use(cleaning=CleaningSite(require=require))
    if stand.node.live.memo.evidence is None:
        is_through(await checked(stand))
    evidence = stand.node.live.memo.evidence
    assert evidence is not None
    stand.node = with_note(stand.node, evidence=replace(evidence, power_cycle=power_cycle))
    stand.node = with_workflow(stand.node, stage=stage, stage_entered_at=stand.now)
    settled = await stand.settle()
    assert isinstance(settled, Done | Failed)
    return settled


@pytest.mark.parametrize("require", Require)
async def test_disks_and_a_power_cycle_prove_the_whole_cleaning_from_outside(stand: Stand, require: Require) -> None:
    await released(stand)
    for stage in (D.SCRUB_GPU, D.VALIDATE_CLEAN_NODE):
        done = await at_stage(stand, stage, COLD, require)
        is_through(done)
        assert isinstance(done, Done) and done.reason.endswith("; proven by the region")
    assert stand.node.cleaned == Cleaned(By.REGION, stand.node.live.id)
    assert stand.node.conditions == ()


async def test_without_a_power_cycle_the_memory_is_unproven(stand: Stand) -> None:
    await released(stand)
    for stage in (D.SCRUB_GPU, D.VALIDATE_CLEAN_NODE):
        is_through(await at_stage(stand, stage, None, Require.NONE))
    assert {(each.id, each.target) for each in stand.node.conditions} == {
        (UNPROVEN, D.SCRUB_GPU),
        (UNPROVEN, D.VALIDATE_CLEAN_NODE),
    }
    assert stand.node.cleaned is None


@pytest.mark.parametrize("require", [Require.EVIDENCE, Require.OUTSIDE])
async def test_without_a_power_cycle_the_stage_fails_where_evidence_is_required(stand: Stand, require: Require) -> None:
    await released(stand)
    settled = await at_stage(stand, D.SCRUB_GPU, None, require)
    fails(settled, F.VALIDATION_FAILED, "no cold start of the machine was seen", f"is {require}")


async def test_a_worker_cleans_a_machine_that_lost_its_agent_where_evidence_is_required(stand: Stand) -> None:
    """Otherwise, nobody could give the evidence, and the node could never return."""
    await released(stand)
    stand.use(cleaning=CleaningSite(by=CleaningBy.WORKER, require=Require.EVIDENCE))
    stand.node = with_workflow(stand.node, options=WorkflowOptions(cleaned_by=CleaningBy.WORKER))
    waits(await stand.once(), "was issued")
    stand.node = with_fields(stand.node, tasks=(task(TaskType.CLEANUP_STORAGE, TaskStatus.QUEUED),))
    waits(await stand.once(), "to take task")
