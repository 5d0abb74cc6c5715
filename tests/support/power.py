"""One node's BMC for tests that need no database: its responses, and the calls it receives with their times.

`World.live` runs the handler as the loop would, minute by minute; a test names the steps whose controller dies before
the outcome is committed.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from msgspec.structs import replace
from typing_extensions import override

from farrier.handlers.node.changes import Decision, NodeServices
from farrier.model.intents.params import PowerRequest
from farrier.model.loop.outcome import DoNothing, Step, Transition, Update, Wait
from farrier.model.machine.bmc import BmcError, BmcReading, BmcTarget, PowerState
from farrier.model.node.layers import Management, NodeStatus
from farrier.model.node.snapshot import Bmc, Node
from farrier.model.node.writes import AnswerIntent
from farrier.protocols import BmcClient
from tests.support.nodes import NOW, SECOND, Alone, NoRegions, Secrets, decide, with_bmc

READING = BmcReading(power=PowerState.ON, system_path="/redfish/v1/Systems/1", serial="S1", credential_version="v1")


class World(BmcClient):
    """One node's BMC, and the calls it received with their times. `answers` decides the result of a call."""

    def __init__(self, answer: BmcReading | BmcError = READING) -> None:
        self.now = NOW
        self.answer: Callable[[], BmcReading | BmcError] = lambda: answer
        self.log: list[tuple[str, datetime]] = []
        self.secrets = Secrets()

    def times(self, *calls: str) -> list[datetime]:
        return [at for call, at in self.log if not calls or call in calls]

    def act(self, step: Decision) -> Any:
        """Run a step, and return its outcome. No service waits, so the coroutine ends without an event loop."""
        assert isinstance(step, Step), step
        awaited = step.act(NodeServices(self, self.secrets, NoRegions(), Alone())).__await__()
        try:
            next(iter(awaited))
        except StopIteration as end:
            return end.value
        raise AssertionError("a service did not respond at once")

    def live(self, node: Node, *, until: timedelta, cut: Callable[[Step[Any, Any, Any]], bool] | None = None) -> Node:
        """Run the node for the time `until`, and return it. `cut` selects the steps whose outcome is lost."""
        end = self.now + until
        while self.now <= end:
            decision = decide(node, self.now)
            if isinstance(decision, Step):
                outcome = decision.when_interrupted() if cut is not None and cut(decision) else self.act(decision)
            else:
                outcome = decision
            assert isinstance(outcome, Transition | Update | Wait | DoNothing), outcome
            if isinstance(outcome, Transition | Update):
                entered = self.now if outcome.to.management is not node.management else node.management_entered_at
                gone = {write.intent for write in outcome.writes if isinstance(write, AnswerIntent)}
                kept = tuple(asked for asked in node.intents if asked.id not in gone)
                node = replace(outcome.to, management_entered_at=entered, intents=kept)
            requeue_after = timedelta(0) if isinstance(outcome, Transition) else outcome.requeue_after
            self.now += min(30 * SECOND, 30 * SECOND if requeue_after is None else requeue_after)
        return node

    def _called(self, call: str) -> BmcReading:
        self.log.append((call, self.now))
        answer = self.answer()
        if isinstance(answer, BmcError):
            raise answer
        return answer

    @override
    async def verify(self, target: BmcTarget, *, macs: bool = False) -> BmcReading:
        return self._called("verify")

    @override
    async def read(self, target: BmcTarget) -> BmcReading:
        return self._called("read")

    @override
    async def set_power(
        self, target: BmcTarget, wanted: PowerRequest, *, graceful: bool = False, send: bool = True
    ) -> BmcReading:
        return self._called(f"{wanted} sent" if send else f"{wanted} looked at")


def manageable(bmc: dict[str, Any] | None = None, **fields: Any) -> Node:
    """A manageable node whose power was just read, and for which nothing else is due."""
    known: dict[str, Any] = {
        "power": PowerState.ON,
        "power_at": NOW,
        "serial": "S1",
        "system_path": READING.system_path,
        "good_version": "v1",
    }
    return with_bmc(Management.MANAGEABLE, Bmc(**known | (bmc or {})), **{"status": NodeStatus.RETIRED} | fields)


def gaps(times: list[datetime]) -> list[float]:
    """The seconds between each time and the next."""
    return [(later - earlier) / SECOND for earlier, later in pairwise(times)]
