"""A node of a `Stand` taken through whole runs of its handler: intents, rules, steps, and the effects of their commits.

After each run it asserts the edges of every layer and the pairs of node and workflow that the model allows. `ask` adds
an intent and makes all runs that follow from it at once. `finish` lets time pass for MAAS and its observer until the
node's workflow has ended or waits for an operator. `told` collects the answers to intents.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from msgspec.structs import asdict, replace

from farrier.config import ControllerConfig, NodeConfig
from farrier.controller.outcome_validator import OutcomeValidator
from farrier.handlers.node.changes import Policy, with_fields
from farrier.handlers.node.handler import NodeHandler
from farrier.handlers.node.kind import FAILURE_LABELS, NODE_KIND
from farrier.model.intents.actions import Action
from farrier.model.loop.outcome import Step, Transition, Update
from farrier.model.loop.runs import Turn
from farrier.model.node.failures import POSSIBLE
from farrier.model.node.layers import LIVE, Management
from farrier.model.node.layers import WorkflowStatus as W
from farrier.model.node.limits import Limits
from farrier.model.node.snapshot import Node, Workflow
from farrier.model.node.writes import Write
from tests.support import pairs
from tests.support.nodes import answers, intent, writes
from tests.support.stages import Stand
from tests.support.stored import stored

_ASSESSOR: OutcomeValidator[Node, Node, Write] = OutcomeValidator(NODE_KIND, ControllerConfig())
_TURN = Turn(id=1)
_MOST_RUNS = 60
COUNTED = {
    (kind, stage, failure)
    for kind, stages in POSSIBLE.items()
    for stage, failures in stages.items()
    for failure in failures
}
# Longer than an observer's cursor takes, and shorter than anything in MAAS.
_BETWEEN = timedelta(seconds=30)
# Every commit takes this time, so that a reading made before it is older than the commit.
_COMMIT = timedelta(milliseconds=1)


class Handled:
    """A node and its handler. Without `bmc` the node has no BMC, so that all its runs are about its workflow."""

    def __init__(self, stand: Stand, *, bmc: bool = False) -> None:
        self.stand = stand
        self.told: list[tuple[str, str]] = []
        self.ended: Workflow | None = None
        self.written: list[Write] = []
        if not bmc:
            stand.node = with_fields(stand.node, management=Management.UNMANAGED, bmc_address=None, bmc_credential=None)

    @property
    def node(self) -> Node:
        return self.stand.node

    @property
    def status(self) -> W:
        """The status of the live workflow, or of the workflow that ended last."""
        workflow = self.node.workflow or self.ended
        assert workflow is not None
        return workflow.status

    def request(self, action: Action, **params: Any) -> None:
        """Add a pending intent."""
        self.stand.node = replace(self.node, intents=(*self.node.intents, intent(action, **params)))

    async def ask(self, action: Action, **params: Any) -> str:
        """Add an intent, and run until the node rests. Returns the status that the intent got."""
        self.request(action, **params)
        before = len(self.told)
        await self.rest()
        return self.told[before][0]

    async def rest(self) -> None:
        """Run until no run requires another run at once."""
        for _ in range(_MOST_RUNS):
            if not await self.run():
                return
            self.stand.world.clock.now += 1
        raise AssertionError(f"never rests: {self.node}")

    async def run(self) -> bool:
        """Make one run and its commit; returns whether the node runs again at once."""
        before, now = self.node, self.stand.now
        decision = self.handler().handle(before, now)
        if isinstance(decision, Step):
            decision = await decision.act(self.stand.services)
        _ASSESSOR.finish(_TURN, before, decision)
        changed = isinstance(decision, Transition | Update)
        after = decision.to if isinstance(decision, Transition | Update) else before
        for sample in NODE_KIND.samples(before, after):
            told = {label: sample.labels[label] for label in FAILURE_LABELS}
            assert tuple(told.values()) in COUNTED, f"no series for {told}: see model/node/failures.py"
        job = after.workflow
        assert pairs.fits(after)
        if job is not None:
            self.ended = job if job.status not in LIVE else self.ended
        self.told += answers(decision)
        self.written += writes(decision)
        self.stand.now += _COMMIT
        self.stand.node = stored(before, after, writes(decision), self.stand.now)
        return changed or getattr(decision, "requeue_after", None) == timedelta(0)

    async def finish(self, within: timedelta = timedelta(minutes=30)) -> W:
        """Let time pass until the workflow has ended or waits for an operator. Returns its status."""
        end = self.stand.now + within
        await self.rest()
        while self.status in LIVE - {W.FAILED_MANUAL_INTERVENTION} and self.stand.now < end:
            self.pass_time()
            await self.rest()
        return self.status

    def pass_time(self) -> None:
        """Let time pass in MAAS, and let its observer read the machine."""
        self.stand.pass_time(_BETWEEN)
        if self.node.maas_id is not None:
            self.stand.observe()

    def handler(self) -> NodeHandler:
        """A handler with the stand's policy."""
        policy = self.stand.policy
        settings = {name: value for name, value in asdict(policy).items() if name not in _OF_THE_POLICY}
        return NodeHandler(NodeConfig(**settings), Limits(policy.sla), policy.sites)


_OF_THE_POLICY = frozenset(Policy.__struct_fields__) - frozenset(NodeConfig.__struct_fields__)
