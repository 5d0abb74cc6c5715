"""A node whose machine is ready to be deployed, on a stand; and its whole workflow, run as the loop runs it.

`on_ready` commissions the machine and forgets the requests for it; `issue` stands in for the stage that renders the
user data. `Journey` observes the region between runs, so that tests see limits and detours that span several stages.
"""

from __future__ import annotations

from datetime import timedelta

from typing_extensions import override

from farrier.handlers.node.changes import with_fields, with_note, with_workflow
from farrier.handlers.node.maas import cloud_init
from farrier.model.maas.reading import Machine
from farrier.model.node.layers import WorkflowStatus
from farrier.model.node.snapshot import Memo, Workflow
from farrier.model.node.stages import OnboardingStage
from farrier.sim.maas.records import Machine as Record
from tests.support.handled import Handled
from tests.support.maas import commissioned
from tests.support.stages import Stand

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
_READS = ("machine", "whoami", "events", "results")


async def on_ready(at: Stand, stage: OnboardingStage) -> None:
    """Put the node at `stage` of a deployment, with a machine that is ready."""
    machine = await commissioned(at.world, at.region)
    at.node = with_fields(at.node, maas_id=machine.system_id)
    at.onboards(stage)
    at.world.observed.requests.clear()


async def issue(at: Stand) -> None:
    """Issue the token of the next deployment."""
    token = await cloud_init.token(at.services, at.site, at.node, memo(at).deploys + 1)
    at.node = with_note(at.node, token=cloud_init.digest(token), token_at=at.now)


def record(at: Stand) -> Record:
    """The node's machine, in the region."""
    assert at.node.maas_id is not None
    return at.region.machines[at.node.maas_id]


def workflow(at: Stand) -> Workflow:
    assert at.node.workflow is not None
    return at.node.workflow


def memo(at: Stand) -> Memo:
    return workflow(at).memo


def sent(at: Stand, operation: str) -> int:
    """How often the operation was sent to the region."""
    return at.world.observed.operations.count(operation)


def changes(at: Stand) -> list[str]:
    """The changes that were sent to the region, in order."""
    return [operation for operation in at.world.observed.operations if operation not in _READS]


def taken_up_again(at: Stand, *, attempt: int) -> None:
    """Begin the next attempt of a stage that failed; the first attempt after an operator's retry has number one."""
    at.now += MINUTE
    at.node = with_workflow(at.node, attempt=attempt, status_entered_at=at.now)


def entered(at: Stand, stage: OnboardingStage) -> None:
    """Begin the stage now, as the commit that enters the stage does."""
    at.now += SECOND
    at.node = with_workflow(at.node, stage=stage, stage_entered_at=at.now)


async def read(at: Stand) -> Machine:
    assert at.node.maas_id is not None
    return await at.world.client.machine(at.node.maas_id)


class Journey(Handled):
    """A deployment of the stand's node. `stages` are the stages that its workflow entered, in order."""

    def __init__(self, at: Stand) -> None:
        super().__init__(at, bmc=True)
        self.stages: list[str] = []
        self.failures: list[str] = []

    async def until(self, *stages: OnboardingStage, minutes: int = 600) -> None:
        """Run, a minute at a time, until the workflow is at one of these stages or waits for an operator."""
        for _ in range(minutes):
            await self.rest()
            if workflow(self.stand).stage in stages or self.status is WorkflowStatus.FAILED_MANUAL_INTERVENTION:
                return
            self.stand.pass_time(MINUTE)
            shown = record(self.stand)
            self.stand.observe(netboot=shown.netboot, enable_hw_sync=shown.enable_hw_sync)
        raise AssertionError(f"is at {workflow(self.stand).stage} still: {self.stages}")

    @override
    async def run(self) -> bool:
        was = self.node.workflow
        again = await super().run()
        now = self.node.workflow
        if was is None or now is None:
            return again
        if now.stage != was.stage:
            self.stages.append(str(now.stage))
        # Counted only when the workflow leaves RUNNING: the class of a failure may be decided later, when an outage
        # would have been noticed.
        if now.status != was.status and was.status is WorkflowStatus.RUNNING and now.failure_class is not None:
            self.failures.append(str(now.failure_class))
        return again
