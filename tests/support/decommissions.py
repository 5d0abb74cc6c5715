"""A stand whose node is decommissioned: its machine is in MAAS, in any status and allocated to any user.

Used by the tests of decommission stages. Machines get to `deployed` by the client's own calls; the helpers set any
other status directly, as an administrator of the region's database could.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, TypeAlias

from farrier.handlers.node.changes import Done, Failed, Settled, Waiting, with_fields, with_workflow
from farrier.model.node.failures import FailureClass
from farrier.model.node.snapshot import WorkflowOptions
from farrier.model.node.stages import DecommissionStage
from farrier.sim.maas import ADMIN, Status
from farrier.sim.maas.records import Machine
from tests.support.maas import deployed
from tests.support.maas_region import put_into
from tests.support.stages import Stand

CHANGES = ("release", "abort", "unlock", "lock", "power_off", "delete", "update", "deploy", "commission", "mark_fixed")
FORCED = WorkflowOptions(force=True, reason="the lock is an old one")
# Longer than any back-off of a stage.
LATER = timedelta(minutes=20)

Run: TypeAlias = Callable[[Stand], Awaitable[Settled]]


async def given_deployed(stand: Stand, stage: DecommissionStage, **fields: Any) -> Machine:
    """Put the node at this stage, with its machine deployed by farrier, and forget the requests sent so far."""
    machine = await deployed(stand.world, stand.region)
    stand.node = with_fields(stand.node, maas_id=machine.system_id)
    stand.decommissions(stage, **fields)
    stand.world.observed.requests.clear()
    return stand.region.machines[machine.system_id]


async def given(
    stand: Stand,
    stage: DecommissionStage,
    status: Status,
    *,
    owner: str | None = ADMIN.username,
    power: str = "on",
    **fields: Any,
) -> Machine:
    """Put the node at this stage, with its machine in this status."""
    machine = await given_deployed(stand, stage, **fields)
    if status is not Status.DEPLOYED:
        machine.osystem = machine.distro_series = ""
    put_into(machine, status, owner=owner, power=power, previous=Status.READY)
    return machine


def sent(stand: Stand) -> list[str]:
    """The changes that were sent to the region, in order."""
    return [operation for operation in stand.world.observed.operations if operation in CHANGES]


def asked(stand: Stand) -> int:
    """The number of requests of any kind."""
    return len(stand.world.observed.operations)


def again(stand: Stand) -> None:
    """Begin another attempt of the stage, after its back-off."""
    stand.pass_time(LATER)
    stand.node = with_workflow(stand.node, status_entered_at=stand.now)


def waits(settled: Settled, *words: str) -> None:
    assert isinstance(settled, Waiting), settled
    assert all(word in settled.reason for word in words), settled


def fails(settled: Settled, failure: FailureClass, *words: str) -> None:
    assert isinstance(settled, Failed), settled
    assert settled.failure is failure, settled
    assert all(word in settled.detail for word in words), settled


def skips(settled: Settled, *words: str) -> None:
    assert isinstance(settled, Done) and settled.skipped is not None, settled
    assert all(word in settled.skipped for word in words), settled


def is_through(settled: Settled) -> None:
    assert isinstance(settled, Done) and settled.skipped is None, settled
