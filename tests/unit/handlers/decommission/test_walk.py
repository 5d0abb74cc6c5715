"""Whole decommissions through the handler, on a simulated region: with lost responses and with lost runs.

The tests play agents, the observer and commits; the client of the region is the real one. Each change is sent
once, even if a response or a run is lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace
from typing_extensions import override

from farrier.handlers.node.moves import with_fields
from farrier.model.intents.actions import Action
from farrier.model.loop.outcome import Deleted, Step
from farrier.model.node.snapshot import Onboarding, TaskStatus, TaskType
from farrier.model.node.status import NodeStatus as N
from farrier.model.node.workflow import OnboardingMode
from farrier.model.node.writes import CreateTask
from farrier.sim.maas import Broken, Fault, Status
from farrier.sim.maas.records import Machine
from tests.support.decommissions import CHANGES
from tests.support.handled import Handled
from tests.support.maas import deployed
from tests.support.nodes import agent, intent
from tests.support.stages import Stand
from tests.support.stored import OPEN

MOST_RUNS = 120
IN_MAAS = ("load_site_config", "release_maas_node", "power_off_maas_node", "remove_maas_record")


class Walk(Handled):
    """A decommission of the stand's node. Of the runs that call MAAS, those in `lost_runs` are never committed."""

    def __init__(self, stand: Stand, lost_runs: frozenset[int] = frozenset()) -> None:
        super().__init__(stand, bmc=True)
        self.lost_runs = lost_runs
        self.steps = 0
        self.path: list[str] = []

    @override
    async def run(self) -> bool:
        """Make one run and its commit; returns False once the node is deleted."""
        stand = self.stand
        stand.pass_time(timedelta(seconds=20))
        before = stand.node
        decision = self.handler().handle(before, stand.now)
        if isinstance(decision, Deleted):
            return False
        if isinstance(decision, Step) and decision.name in IN_MAAS:
            self.steps += 1
            if self.steps in self.lost_runs:
                await decision.act(stand.services)
                return True
        await super().run()
        if stand.node.status is not before.status:
            self.path.append(stand.node.status)
        stand.node = with_fields(stand.node, tasks=tuple(self.done(task) for task in stand.node.tasks))
        if stand.node.maas_id is not None:
            stand.observe()
        return True

    def done(self, task: Any) -> Any:
        """The task, succeeded if it is open and the node still has an agent."""
        return replace(task, status=TaskStatus.SUCCEEDED) if task.status in OPEN and self.stand.node.agent else task

    async def to_the_end(self) -> None:
        for _ in range(MOST_RUNS):
            if not await self.run() or isinstance(self.stand.node.workflow, Onboarding):
                return
        raise AssertionError(f"does not end: {self.stand.node}")

    @property
    def sent(self) -> list[str]:
        return [operation for operation in self.stand.world.observed.operations if operation in CHANGES]


async def in_service(stand: Stand, action: Action, **params: Any) -> Machine:
    machine = await deployed(stand.world, stand.region)
    stand.node = replace(
        stand.node,
        status=N.ACTIVE,
        maas_id=machine.system_id,
        ever_onboarded=True,
        ever_active=True,
        agent=agent(heard=stand.now),
        intents=(intent(action, **params),),
    )
    stand.world.observed.requests.clear()
    return stand.region.machines[machine.system_id]


FULL: dict[str, Any] = {"mode": "full_decommission"}
FORCED = FULL | {"force": True, "reason": "the lock is an old one"}
GIVEN_BACK = ["release", "power_off", "delete"]


async def test_a_full_decommission_unlocks_releases_and_deletes_the_machine_and_then_the_node(stand: Stand) -> None:
    machine = await in_service(stand, Action.DECOMMISSION, **FORCED)
    machine.locked = True
    walk = Walk(stand)
    await walk.to_the_end()
    assert walk.path == ["draining", "retired", "removing", "deleted"]
    # The release switches the machine off, so the next stage has nothing to do.
    assert walk.sent == ["unlock", "release", "delete"]
    assert [(new.type, new.result) for new in walk.written if isinstance(new, CreateTask) and new.ended] == [
        (TaskType.UNINSTALL, "machine_released")
    ]
    assert stand.node.agent is None and not stand.region.machines


def losses() -> Iterator[Any]:
    for op in ("unlock", "release", None):
        yield pytest.param(op, frozenset(), id=f"answer to {op or 'delete'}")
    for run in range(1, 7):
        yield pytest.param("nothing", frozenset({run, run + 1}), id=f"runs {run} and {run + 1}")


@pytest.mark.parametrize(("op", "runs"), list(losses()))
async def test_no_change_is_sent_twice_if_a_response_or_a_run_is_lost(
    stand: Stand, op: str | None, runs: frozenset[int]
) -> None:
    """A lost run has sent its change, but is never committed, so the next run does not know of it."""
    machine = await in_service(stand, Action.DECOMMISSION, **FORCED)
    machine.locked = True
    method = "POST" if op else "DELETE"
    fault = stand.region.faults.add(Fault(method=method, op=op, broken=Broken.DROP))
    walk = Walk(stand, runs)
    await walk.to_the_end()
    assert fault.struck == (op != "nothing")
    assert walk.steps > max(runs, default=0), "fewer runs called MAAS than the number of the lost one"
    assert walk.path == ["draining", "retired", "removing", "deleted"]
    assert walk.sent == ["unlock", "release", "delete"]
    assert not stand.region.machines


async def test_a_machine_that_is_on_after_its_release_is_switched_off(stand: Stand) -> None:
    machine = await in_service(stand, Action.DECOMMISSION, **FULL)
    stand.region.on_move.append(lambda it, _: setattr(it, "power_state", "on") if it.status is Status.READY else None)
    walk = Walk(stand)
    await walk.to_the_end()
    assert walk.sent == GIVEN_BACK and machine.power_state == "off"


@pytest.mark.parametrize("runs", [frozenset[int](), frozenset({1}), frozenset({2, 3})], ids=str)
async def test_a_reimage_releases_the_machine_and_installs_the_node_again(stand: Stand, runs: frozenset[int]) -> None:
    machine = await in_service(stand, Action.DECOMMISSION, mode="reimage")
    walk = Walk(stand, runs)
    await walk.to_the_end()
    assert walk.path == ["draining", "retired"]
    assert walk.sent == ["release"] and machine.status is Status.READY
    assert isinstance(stand.node.workflow, Onboarding) and stand.node.workflow.mode is OnboardingMode.DEPLOY
    assert stand.node.agent is None and stand.node.maas_id == machine.system_id
