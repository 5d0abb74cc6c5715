"""Burn-in: a machine passes the site's tests before its first deployment, by name and revision."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from farrier.config.burn_in import ValidationSite
from farrier.handlers.node.changes import Done, Failed, Waiting, with_fields, with_workflow
from farrier.model.maas.scripts import Text
from farrier.model.node.failures import FailureClass as F
from farrier.model.node.stages import OnboardingStage as O
from farrier.sim.maas import Status
from farrier.sim.maas.hardware import Printed
from farrier.sim.maas.records import Machine
from tests.support.found_machines import fails, is_done
from tests.support.maas import commissioned
from tests.support.stages import Stand

SCRIPTS = ("burn-cpu", "burn-gpu")
TEST = timedelta(minutes=6)


async def commissioned_at(stand: Stand, *, never_active: bool = True) -> Machine:
    """A machine whose commissioning has passed, at a site with a burn-in."""
    read = await commissioned(stand.world, stand.region)
    stand.use(validation=ValidationSite(scripts=SCRIPTS))
    for name in SCRIPTS:
        await stand.world.client.save_script(Text(name=name, text=f"#!/bin/sh\n# {name}\n"), is_new=True)
    stand.node = with_fields(stand.node, maas_id=read.system_id, ever_active=not never_active)
    stand.onboards(O.WAIT_FOR_READY)
    stand.observe()
    stand.world.observed.requests.clear()
    return stand.region.machines[read.system_id]


async def burnt_in(stand: Stand) -> Done | Failed | Waiting:
    settled: Done | Failed | Waiting = await stand.settle()
    for _ in range(2):
        if isinstance(settled, Waiting):
            stand.pass_time(TEST)
            stand.observe()
            settled = await stand.settle()
    return settled


def requested(stand: Stand) -> int:
    return stand.world.observed.operations.count("test")


async def test_a_machine_passes_each_script_once_and_the_workflow_keeps_which_revision(stand: Stand) -> None:
    machine = await commissioned_at(stand)
    is_done(await burnt_in(stand))
    burn_in = stand.node.live.memo.burn_in
    assert [run.script for run in burn_in] == list(SCRIPTS) and requested(stand) == 2
    assert [run.revision for run in burn_in] == [stand.region.scripts[name].history[0].id for name in SCRIPTS]
    assert machine.status is Status.READY


async def test_a_failed_script_waits_for_an_operator_whose_retry_repeats_it(stand: Stand) -> None:
    machine = await commissioned_at(stand)
    nature = stand.region.nature_of(machine)
    stand.region.natures[machine.system_id] = replace(nature, programs={SCRIPTS[1]: lambda: Printed(b"", 1)})
    failed = await burnt_in(stand)
    fails(failed, F.COMMISSIONING_FAILED, SCRIPTS[1], "burn-in")
    assert isinstance(failed, Failed) and failed.stop is not None and machine.status is Status.FAILED_TESTING
    stand.region.natures[machine.system_id] = nature
    stand.pass_time(TEST)
    stand.node = with_workflow(stand.node, status_entered_at=stand.now)
    stand.observe()
    is_done(await burnt_in(stand))
    assert requested(stand) == 3, "the script that passed is not repeated"


async def test_a_script_that_maas_does_not_have_is_named(stand: Stand) -> None:
    await commissioned_at(stand)
    stand.use(validation=ValidationSite(scripts=("nosuch",)))
    fails(await stand.settle(), F.INVALID_CONFIG, "MAAS has no testing script nosuch")


async def test_a_long_burn_in_does_not_exceed_the_limit_of_the_stage(stand: Stand) -> None:
    await commissioned_at(stand)
    await stand.settle()
    stand.pass_time(timedelta(minutes=3))
    stand.observe()
    settled = await stand.settle()
    assert isinstance(settled, Waiting) and not settled.timed


@pytest.mark.parametrize("scripts", [SCRIPTS, ()])
async def test_only_a_machine_that_was_never_in_service_burns_in(stand: Stand, scripts: tuple[str, ...]) -> None:
    await commissioned_at(stand, never_active=not scripts)
    stand.use(validation=ValidationSite(scripts=scripts))
    is_done(await stand.settle())
    assert requested(stand) == 0
