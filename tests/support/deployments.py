"""A node whose machine is ready to be deployed, on a stand; and its whole workflow, run as the loop runs it.

`on_ready` commissions the machine and forgets the requests for it; `issue` stands in for the stage that renders the
user data. `Journey` makes runs of the handler itself, commits them as the database would, and observes the region, so
that tests see limits and detours that span several stages.
"""

from __future__ import annotations

from datetime import timedelta

import msgspec

from farrier.config import NodeConfig
from farrier.handlers.node import bootstrap
from farrier.handlers.node.handler import NodeHandler
from farrier.handlers.node.moves import Outcome, with_fields, with_note, with_workflow
from farrier.model.maas import Machine
from farrier.model.node import Node, Upstream, Workflow
from farrier.model.outcome import Step, Transition, Update
from farrier.model.stages import OnboardingStage
from farrier.model.workflow import WorkflowStatus
from farrier.sim.maas.records import Machine as Record
from tests.support.maas import commissioned
from tests.support.stages import Stand

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
_MOST_STEPS = 2000
_READS = ("machine", "whoami", "events", "results")


async def on_ready(at: Stand, stage: OnboardingStage) -> None:
    """Put the node at `stage` of a deployment, with a machine that is ready."""
    machine = await commissioned(at.world, at.region)
    at.node = with_fields(at.node, maas_id=machine.system_id)
    at.onboards(stage)
    at.world.observed.requests.clear()


async def issue(at: Stand) -> None:
    """Issue the token of the next deployment."""
    token = await bootstrap.token(at.services, at.site, at.node, upstream(at).deploys + 1)
    at.node = with_note(at.node, token=bootstrap.digest(token), token_at=at.now)


def record(at: Stand) -> Record:
    """The node's machine, in the region."""
    assert at.node.maas_id is not None
    return at.region.machines[at.node.maas_id]


def workflow(at: Stand) -> Workflow:
    assert at.node.workflow is not None
    return at.node.workflow


def upstream(at: Stand) -> Upstream:
    return workflow(at).upstream


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


class Journey:
    """The stand's node, run by the handler. `stages` are the stages that its workflow entered, in order."""

    def __init__(self, at: Stand) -> None:
        self.at = at
        self.stages: list[str] = []
        self.failures: list[str] = []

    async def until(self, *stages: OnboardingStage, minutes: int = 600) -> None:
        """Run, a minute at a time, until the workflow is at one of these stages or waits for an operator."""
        for _ in range(minutes):
            await self.settle()
            if workflow(self.at).stage in stages or self.waits_for_operator:
                return
            self.at.pass_time(MINUTE)
            self.at.observe(**self._seen())
        raise AssertionError(f"is at {workflow(self.at).stage} still: {self.stages}")

    @property
    def waits_for_operator(self) -> bool:
        return workflow(self.at).status is WorkflowStatus.FAILED_MANUAL_INTERVENTION

    def retry(self) -> None:
        """Retry the failed stage, as an operator does."""
        fresh = with_workflow(
            self.at.node, status=WorkflowStatus.RUNNING, attempt=1, next_attempt_at=None, failure_class=None
        )
        self._commit(fresh)

    def _seen(self) -> dict[str, object]:
        shown = record(self.at)
        return {"netboot": shown.netboot, "enable_hw_sync": shown.enable_hw_sync}

    async def settle(self) -> None:
        """Run until there is nothing to do at once."""
        handler = NodeHandler(NodeConfig(), sites=self.at.policy.sites)
        for _ in range(_MOST_STEPS):
            decision = handler.handle(self.at.node, self.at.now)
            outcome: Outcome = await decision.act(self.at.services) if isinstance(decision, Step) else decision
            if isinstance(outcome, Transition | Update):
                self._commit(outcome.to)
                continue
            if getattr(outcome, "requeue_after", None) != timedelta(0):
                return
        raise AssertionError(f"never rests: {self.stages[-10:]}")

    def _commit(self, to: Node) -> None:
        """Store the node. A layer whose value changes is entered now."""
        self.at.now += SECOND
        was, now = workflow(self.at), to.workflow
        assert now is not None
        if now.stage != was.stage:
            now = msgspec.structs.replace(now, stage_entered_at=self.at.now)
            self.stages.append(str(now.stage))
        if now.status != was.status:
            now = msgspec.structs.replace(now, status_entered_at=self.at.now)
            # Counted only when the workflow leaves RUNNING: the class of a failure may be decided later, when an outage
            # would have been noticed.
            if now.failure_class is not None and was.status is WorkflowStatus.RUNNING:
                self.failures.append(str(now.failure_class))
        self.at.node = with_fields(to, workflow=now)
