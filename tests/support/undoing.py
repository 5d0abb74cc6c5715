"""A deployment about to be undone, at a stage and with its machine in a status, and the changes sent to MAAS since."""

from __future__ import annotations

from farrier.model.node.failures import FailureClass
from farrier.model.node.layers import NodeStatus as N
from farrier.model.node.layers import WorkflowStatus as W
from farrier.model.node.snapshot import Memo
from farrier.model.node.stages import OnboardingStage as O
from farrier.sim.maas import Status
from tests.support.handled import Handled
from tests.support.machines import machine_in
from tests.support.stages import Stand

AT_REST = (Status.NEW, Status.READY)
ASKED = Memo(deploys=1, token="d1")
_CHANGES = ("abort", "release", "unlock", "deploy", "commission", "create", "update", "delete", "power_off")


def changes(at: Stand) -> list[str]:
    return [operation for operation in at.world.observed.operations if operation in _CHANGES]


def forget(at: Stand) -> None:
    at.world.observed.requests.clear()


async def standing(at: Stand, stage: O, machine: Status, **fields: object) -> Handled:
    """A deployment at a stage with its machine in a status."""
    await machine_in(at, machine)
    at.onboards(stage, **fields)
    forget(at)
    return Handled(at)


def machine_of(at: Stand) -> Status:
    assert at.node.maas_id is not None
    return at.region.machines[at.node.maas_id].status


def refused(it: Handled, detail: str) -> None:
    workflow = it.node.workflow
    assert workflow is not None
    assert (workflow.status, workflow.failure_class) == (W.FAILED_MANUAL_INTERVENTION, FailureClass.UNDO_FAILED)
    assert detail in (workflow.failure_detail or "")
    assert it.node.status is N.ENROLLING
