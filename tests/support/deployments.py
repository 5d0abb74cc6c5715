"""A node whose machine is ready to be deployed, on a stand; and a whole workflow of it, run as the engine runs it.

`on_ready` commissions the machine and forgets what that took; `issue` plays the stage that renders the user data.
`Journey` makes runs of the handler itself, commits them as the database would, and observes the region, so that bounds
and detours over several stages are seen.
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
    """The node at `stage` of a deployment, with a machine that is ready."""
    machine = await commissioned(at.world, at.region)
    at.node = with_fields(at.node, maas_id=machine.system_id)
    at.onboards(stage)
    at.world.observed.requests.clear()


async def issue(at: Stand) -> None:
    """The token of the next deployment is issued."""
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
    """How often something was asked of the region."""
    return at.world.observed.operations.count(operation)


def changes(at: Stand) -> list[str]:
    """What was sent that changes something, in order."""
    return [operation for operation in at.world.observed.operations if operation not in _READS]


def taken_up_again(at: Stand, *, attempt: int) -> None:
    """The stage failed, and its next attempt begins now; the first one after an operator's word is number one."""
    at.now += MINUTE
    at.node = with_fields(at.node, workflow=with_workflow(at.node, attempt=attempt, status_entered_at=at.now))


def entered(at: Stand, stage: OnboardingStage) -> None:
    """The stage begins now, as the commit that went on to it says."""
    at.now += SECOND
    at.node = with_fields(at.node, workflow=with_workflow(at.node, stage=stage, stage_entered_at=at.now))


async def read(at: Stand) -> Machine:
    assert at.node.maas_id is not None
    return await at.world.client.machine(at.node.maas_id)


class Journey:
    """The stand's node, run by the handler. `stages` are those it was at, in order."""

    def __init__(self, at: Stand) -> None:
        self.at = at
        self.stages: list[str] = []
        self.failures: list[str] = []

    async def until(self, *stages: OnboardingStage, minutes: int = 600) -> None:
        """Run, a minute at a time, until the workflow is at one of these or waits for an operator."""
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
        """An operator asks for the failed stage again."""
        fresh = with_workflow(
            self.at.node, status=WorkflowStatus.RUNNING, attempt=1, next_attempt_at=None, failure_class=None
        )
        self._commit(with_fields(self.at.node, workflow=fresh))

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
        """Clocks start anew when their values change."""
        self.at.now += SECOND
        was, now = workflow(self.at), to.workflow
        assert now is not None
        if now.stage != was.stage:
            now = msgspec.structs.replace(now, stage_entered_at=self.at.now)
            self.stages.append(str(now.stage))
        if now.status != was.status:
            now = msgspec.structs.replace(now, status_entered_at=self.at.now)
            # The last attempt fails once: whose it is is decided when an outage would have been noticed.
            if now.failure_class is not None and was.status is WorkflowStatus.RUNNING:
                self.failures.append(str(now.failure_class))
        self.at.node = with_fields(to, workflow=now)
