"""Every state that a node can reach: the handler is explored from some nodes, by every intent and every event.

From each new place the walk tries every stimulus, and runs the node until it rests, as the loop would. After each run
the invariants of a commit must hold. Places that differ only in times and counters count as one place; there are some
thousands of them, and the walk ends when it finds no new one. Used by `tests/unit/handlers/test_exploration*`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from functools import cache
from types import MappingProxyType
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace
from typing_extensions import override

from farrier.config import ControllerConfig, NodeConfig
from farrier.config.sites import DeploySite, ReleaseSite
from farrier.controller.outcome_validator import OutcomeValidator
from farrier.errors import FarrierError
from farrier.handlers.node.changes import NodeServices, Outcome, Policy, attempt_began_at, unproven_health, vitals
from farrier.handlers.node.handler import NodeHandler
from farrier.handlers.node.kind import NODE_KIND
from farrier.handlers.node.onboarding import deployment
from farrier.model.intents import actions
from farrier.model.intents.actions import ANSWERED_WHILE_PAUSED, Action
from farrier.model.intents.params import PowerRequest
from farrier.model.loop.outcome import Deleted, Step, Transition, Update
from farrier.model.loop.runs import Turn
from farrier.model.machine import health
from farrier.model.machine.bmc import BmcError, BmcFailure, BmcReading, BmcTarget, PowerState
from farrier.model.machine.health import Health, SshSeed
from farrier.model.machine.observation import MaasObservation
from farrier.model.node import edges
from farrier.model.node.conditions import Effect, Source, has_source, quarantining
from farrier.model.node.failures import FailureClass
from farrier.model.node.layers import LIVE, Layer
from farrier.model.node.layers import Management as M
from farrier.model.node.layers import NodeStatus as N
from farrier.model.node.layers import WorkflowStatus as W
from farrier.model.node.snapshot import Agent, Decommission, Node, Onboarding, TaskStatus, TaskType, Workflow
from farrier.model.node.stages import DecommissionStage
from farrier.model.node.writes import Write
from farrier.protocols import BmcClient
from tests.support import pairs
from tests.support.nodes import MINUTE, NOW, SECOND, Alone, Secrets, agent, intent, node, onboarding, reporting, writes
from tests.support.played_region import Disks, PlayedRegion, Shown
from tests.support.stages import SITE
from tests.support.stored import OPEN, stored

HOUR = timedelta(hours=1)
WALKED = replace(SITE, release=ReleaseSite(remove_record=True), deploy=DeploySite(hardware_sync=False))
POLICY = Policy(sites={SITE.name: WALKED})
HANDLER = NodeHandler(NodeConfig(), sites={SITE.name: WALKED})
# The time that a step takes, so that later readings are newer than its requests.
MOMENT = timedelta(milliseconds=1)
# A node that does not rest after so many runs never rests.
RUNS_AT_MOST = 40

READING = BmcReading(power=PowerState.ON, system_path="/redfish/v1/Systems/1", serial="SN-1", credential_version="v1")
ASSESSOR: OutcomeValidator[Node, Node, Write] = OutcomeValidator(NODE_KIND, ControllerConfig())
TURN = Turn(id=1)

FRESH_NODES = (
    node(N.BOOTSTRAP_ISSUED),
    node(workflow=onboarding(W.PENDING, mode=None, stage=None, mode_given_at=None)),
)
"""Registered nodes, with and without a bootstrap token."""

# The steps, all in the region, that a node still takes while it is deleted or its deployment is undone.
IN_MAAS = ("remove_maas_record", "undo")

CARRIED_BY = {N.DRAINING: TaskType.DRAIN, N.REMOVING: TaskType.UNINSTALL}


class Place(msgspec.Struct, frozen=True):
    """A node at rest at some time, whether its BMC and its site's region respond, the power that its BMC reports, and
    its machine in the region (None: the region has no machine)."""

    node: Node
    now: datetime
    bmc_answers: bool = True
    power: PowerState = PowerState.ON
    region_answers: bool = True
    machine: Shown | None = None


Stimulus: TypeAlias = Callable[[Place], Place | None]


# --- runs


class Played(BmcClient):
    """A BMC that responds if `answers`. `power` is the power of its machine, which each action changes at once."""

    def __init__(self, answers: bool, power: PowerState = PowerState.ON) -> None:
        self.power = power
        self._answers = answers

    @override
    async def verify(self, target: BmcTarget, *, macs: bool = False) -> BmcReading:
        if self._answers:
            return replace(READING, power=self.power)
        raise BmcError(BmcFailure.UNREACHABLE, "no route")

    @override
    async def read(self, target: BmcTarget) -> BmcReading:
        return await self.verify(target)

    @override
    async def set_power(
        self, target: BmcTarget, wanted: PowerRequest, *, graceful: bool = False, send: bool = True
    ) -> BmcReading:
        if self._answers and send:
            self.power = PowerState.OFF if wanted is PowerRequest.OFF else PowerState.ON
        return await self.verify(target)


def acted(step: Step[Node, Write, NodeServices], bmc: Played, region: PlayedRegion) -> Outcome:
    """Run a step, and return its outcome. No service waits, so the coroutine runs to its end without an event loop."""
    act = step.act(NodeServices(bmc, Secrets(), region, Alone()))
    try:
        act.__await__().__next__()
    except StopIteration as end:
        outcome: Outcome = end.value
        return outcome
    raise AssertionError("a service did not respond at once")


def run(place: Place) -> tuple[Place, bool]:
    """Make one run and its commit; returns the new place, and whether the node runs again at once."""
    before, now = place.node, place.now
    decision = HANDLER.handle(before, now)
    bmc, region = Played(place.bmc_answers, place.power), PlayedRegion(place.machine, answers=place.region_answers)
    if isinstance(decision, Step):
        now += MOMENT
        assert not before.deleting or decision.name in IN_MAAS, "a node that is being deleted must not call its BMC"
        ends = before.deleting or (before.workflow is not None and before.workflow.status is W.COMPENSATING)
        assert before.paused is None or ends, "a paused node must make no step"
        decision = acted(decision, bmc, region)
    ASSESSOR.finish(TURN, before, decision)
    changed = isinstance(decision, Transition | Update)
    after = decision.to if isinstance(decision, Transition | Update) else before
    holds(before, after)
    again = changed or getattr(decision, "requeue_after", None) == timedelta(0)
    if isinstance(decision, Deleted):
        assert before.status is N.DELETED
    if after.status is N.ACTIVE and before.status is not N.ACTIVE:
        unproven = unproven_health(after, now, POLICY)
        assert unproven is None, f"a node enters service only if it is proven healthy: {unproven}"
    power = switched(bmc.power, place.machine, region.machine)
    machine = region.machine
    if before.status is N.DRAINING and after.status is N.RETIRED and machine is not None and machine.disks is not None:
        machine = replace(machine, disks=Disks.USED)
    after = stored(before, after, writes(decision), now)
    return replace(place, node=after, now=now, power=power, machine=machine), again


def switched(power: PowerState, before: Shown | None, after: Shown | None) -> PowerState:
    """The power of the machine after the region may have switched it."""
    if before is None or after is None or before.power == after.power:
        return power
    return PowerState(after.power)


def rest(place: Place) -> Iterator[Place]:
    """Run the node until it rests; yields each place on the way, the place of rest last."""
    for _ in range(RUNS_AT_MOST):
        place, again = run(place)
        yield place
        if not again:
            return
    raise AssertionError(f"never rests: {place.node}")


# --- what must hold


def holds(before: Node, after: Node) -> None:
    """Assert what must hold after every commit."""
    job = after.workflow
    assert after.status is before.status or (before.status, after.status) in edges.ALLOWED[Layer.STATUS]
    moved = (before.management, after.management)
    assert after.management is before.management or moved in edges.ALLOWED[Layer.MANAGEMENT]
    assert pairs.fits(after)
    if job is not None:
        assert before.workflow is None or before.workflow.id == job.id, "one workflow at a time"
    if after.status in CARRIED_BY:
        assert isinstance(job, Decommission) and job.status in LIVE, "a live decommission owns this status"
    if after.status is N.ACTIVE:
        assert after.ever_onboarded and after.ever_active
        assert not has_source(after.conditions, Source.WORKFLOW)
        entered = before.status is not N.ACTIVE
        assert not entered or not quarantining(after.conditions), "a node does not enter service with such a condition"
    if after.management in (M.VERIFYING, M.ADOPTING):
        assert after.has_bmc


def holds_at_rest(place: Place) -> None:
    """Assert what must hold of a node at rest."""
    it = place.node
    assert it.bmc.switching is None or it.deleting or it.paused is not None, "a change of power has to end"
    if it.status is N.ACTIVE and it.paused is None:
        assert not quarantining(it.conditions), "an active node has no condition that takes it out of service"
        facts = vitals(it, place.now, POLICY)
        assert health.silent(facts) is None and health.off(facts) is None, (
            "an active node is heard, and its power is on"
        )
    held = [i.action for i in it.intents]
    assert not held or (it.paused is not None and not ANSWERED_WHILE_PAUSED.intersection(held)), held
    open_tasks = {task.type for task in it.tasks if task.status in OPEN}
    if open_tasks:
        assert isinstance(it.workflow, Decommission), "an open task needs a decommission"
        assert it.workflow.status is not W.FAILED_MANUAL_INTERVENTION, "no open task while an operator has to act"
    if it.status in CARRIED_BY and it.workflow is not None and it.paused is None:
        waits = it.workflow.stage in (DecommissionStage.DRAIN_NODE, DecommissionStage.REMOVE_GPUAAS_NODE_RECORD)
        assert not waits or CARRIED_BY[it.status] in open_tasks, "the status needs an open task"


def escapes(before: Node, way: list[Place], request: str) -> bool:
    """Whether an operator's hold was lifted without a release."""
    kept = any(each.source == Source.OPERATOR for each in before.conditions)
    freed = any(place.node.status is N.ACTIVE for place in way)
    return kept and freed and request != Action.RELEASE


# --- what may happen


REQUESTS: list[tuple[Action, dict[str, Any]]] = [
    (Action.SET_BMC, {"address": "https://10.0.0.1", "credential": "env:BMC"}),
    (Action.SET_BMC, {"credential": "env:OTHER"}),
    (Action.SET_POWER, {"power": "on", "enforce": True}),
    (Action.SET_POWER, {"power": "reset"}),
    (Action.QUARANTINE, {"reason": "looked at"}),
    (Action.ONBOARD, {"mode": "manual"}),
    (Action.ONBOARD, {"mode": "adopt"}),
    (Action.DRAIN, {}),
    (Action.DRAIN, {"force": True, "reason": "dead"}),
    (Action.REMOVE, {}),
    (Action.REMOVE, {"force": True, "reason": "dead"}),
    (Action.DECOMMISSION, {"mode": "soft_reset"}),
    (Action.DECOMMISSION, {"mode": "full_decommission", "leave_on": True}),
    (Action.PAUSE, {"reason": "fire drill"}),
    *((action, {}) for action in Action if not actions.rules(action).fields),
    (Action.RELEASE, {}),
    (Action.RELEASE, {"key": "cleaning/not_scrubbed", "reason": "cleaned by hand"}),
    (Action.RELEASE, {"key": "cleaning/validation_failed", "reason": "cleaned by hand"}),
    (Action.MARK_MANUAL_INTERVENTION_REQUIRED, {}),
]


def asks(action: Action, params: dict[str, Any]) -> Stimulus:
    def ask(place: Place) -> Place:
        asked = intent(action, **params)
        return replace(place, node=replace(place.node, intents=(*place.node.intents, asked)))

    return ask


def enrols(place: Place) -> Place:
    return replace(place, node=replace(place.node, agent=Agent(enrolled_at=place.now)))


def beats(*alerts: str, seed: SshSeed = SshSeed.OK) -> Stimulus:
    def beat(place: Place) -> Place | None:
        if place.node.agent is None:
            return None
        told = agent(*alerts, heard=place.now, ssh_seed_failures=3 if seed is SshSeed.FAILED else 0)
        health = Health(ok=not alerts, alerts=told.health.alerts, ssh_seed=seed)
        told = replace(told, health=health, enrolled_at=place.node.agent.enrolled_at)
        return replace(place, node=reporting(place.node, told))

    return beat


def ends(status: TaskStatus) -> Stimulus:
    """A stimulus: all open tasks end with this status. A task that fails has used up its attempts."""

    def end(place: Place) -> Place | None:
        if place.node.paused is not None or not any(t.status in OPEN for t in place.node.tasks):
            return None
        tasks = (replace(t, status=status, failures=4) if t.status in OPEN else t for t in place.node.tasks)
        return replace(place, node=replace(place.node, tasks=tuple(tasks)))

    return end


def claims(place: Place) -> Place | None:
    """Agents claim the queued tasks for a minute."""
    if place.node.paused is not None or not any(t.status is TaskStatus.QUEUED for t in place.node.tasks):
        return None
    until = place.now + MINUTE
    tasks = (
        replace(t, status=TaskStatus.DISPATCHED, lease_until=until) if t.status is TaskStatus.QUEUED else t
        for t in place.node.tasks
    )
    return replace(place, node=replace(place.node, tasks=tuple(tasks)))


def waits(by: timedelta) -> Stimulus:
    return lambda place: replace(place, now=place.now + by)


def answers(answers: bool) -> Stimulus:
    return lambda place: replace(place, bmc_answers=answers)


STIMULI: dict[str, Stimulus] = {
    **{f"{action} {params}" if params else str(action): asks(action, params) for action, params in REQUESTS},
    "enrols": enrols,
    "is well": beats(),
    "is unwell": beats("xid-79"),
    "has no seed": beats(seed=SshSeed.FAILED),
    "tasks succeed": ends(TaskStatus.SUCCEEDED),
    "tasks fail": ends(TaskStatus.FAILED),
    "tasks are claimed": claims,
    "a minute passes": waits(MINUTE + SECOND),
    "an hour passes": waits(HOUR),
    "BMC is silent": answers(False),
    "BMC answers": answers(True),
}


# --- the walk


def kind_of(place: Place) -> object:
    """The key by which places are distinguished: without times, texts, counters, and notes, which decide nothing."""
    it, job = place.node, place.node.workflow
    return (
        (it.status, it.management, it.bmc.failure, place.bmc_answers, it.paused is not None, it.deleting),
        (it.bmc.sync_failure, it.bmc.desired_power, it.bmc.switching is not None, place.power, it.bmc.power),
        (it.ever_onboarded, it.ever_active),
        frozenset(
            (*each.key, each.effect) for each in it.conditions if each.effect is Effect.QUARANTINE or each.released
        ),
        job
        and (job.kind, job.status, job.mode, job.stage, job.options.force, job.options.untouched, job.stop_requested),
        it.agent and (it.agent.last_heartbeat_at is not None and place.now - it.agent.last_heartbeat_at < MINUTE),
        # Its alerts are conditions. Only an onboarding compares the enrolment with its own beginning.
        it.agent and it.agent.ssh_seed_failures > 0,
        isinstance(job, Onboarding)
        and it.agent
        and job.mode_given_at
        and it.agent.enrolled_at >= (job.memo.asked_at or job.mode_given_at),
        frozenset((task.type, task.status) for task in it.tasks if task.status in OPEN),
        (place.region_answers, machine_of(place), it.maas_id, it.redeploying),
        it.maas and (it.maas.state, it.maas.status),
        job and (job.options.leave_out, job.memo.released, _asked(job), order_of(job, it.maas)),
        job and proof_of(job),
        it.cleaned and it.cleaned.by,
        job and job.failure_class is FailureClass.UNDO_FAILED,
    )


def machine_of(place: Place) -> object:
    """The machine, and whether the deployment that the live workflow recorded last was its last one."""
    if place.machine is None:
        return None
    job, comment = place.node.workflow, place.machine.comment
    ours = job is not None and comment is not None and comment == deployment.comment(place.node, job.memo.deploys)
    before = job.memo.test.after if job is not None and job.memo.test is not None else place.machine.rounds
    shown = replace(place.machine, comment=None, rounds=min(2, max(0, place.machine.rounds - before)))
    return (shown, job is not None and job.memo.has_deployed, ours)


def _asked(job: Workflow) -> str | None:
    """The change that was sent last, without the number of the round of tests."""
    return job.memo.asked and job.memo.asked.partition(" after round ")[0]


def proof_of(job: Workflow) -> object:
    """What the region's check of the machine has shown in the running attempt, and before."""
    memo, began = job.memo, attempt_began_at(job)
    times = (memo.test and memo.test.at, memo.off_seen_at, memo.on_seen_at, memo.checked_at)
    found = memo.evidence and (bool(memo.evidence.power_cycle), any(each.bad_samples for each in memo.evidence.devices))
    judged = frozenset((each.stage, each.by) for each in memo.judged if each.by is not None)
    return tuple(at and at >= began for at in times), found, judged, memo.erases_again, job.options.cleaned_by


def order_of(job: Workflow, seen: MaasObservation | None) -> object:
    """The order of these events: the attempt began, the change was sent to MAAS, the machine was read."""
    began, asked = attempt_began_at(job), job.memo.asked_at
    read = None if seen is None else seen.read_at
    return (asked and asked >= began, read and read >= began, asked and read and read >= asked)


def explore(
    starts: Iterable[Place],
    stimuli: dict[str, Stimulus],
    *,
    mishaps: Mapping[str, Stimulus] = MappingProxyType({}),
    found_in: list[Place] | None = None,
) -> dict[object, set[object]]:
    """Return, for each kind of place (`kind_of`), the kinds of the places to which one stimulus leads. An assertion
    fails if an invariant does not hold. Mishaps lead to more places, but no way out of a place counts on them.
    `found_in` collects one place of each kind."""
    new = deque(list(rest(start))[-1] for start in starts)
    found: dict[object, set[object]] = {kind_of(place): set() for place in new}
    while new:
        place = new.popleft()
        if found_in is not None:
            found_in.append(place)
        here = found[kind_of(place)]
        for name, stimulus in (*stimuli.items(), *mishaps.items()):
            after = follow(place, name, stimulus)
            if after is None:
                continue
            key = kind_of(after)
            if name not in mishaps:
                here.add(key)
            if key not in found:
                found[key] = set()
                new.append(after)
    return found


# Stimuli that lead to a tenth of the places of a walk, in a tenth of the time.
OFTEN = (
    *("delete", "cancel", "onboard", "adopt", "retry_stage", "drain", "remove", "decommission", "quarantine"),
    *("pause", "unpause", "release", "mark_manual", "tasks succeed", "tasks fail", "an hour"),
    *("enrols", "is well", "is unwell"),
)
OF_THE_BMC = ("set_power", "set_bmc", "clear_bmc", "manage", "BMC")


@cache
def walk(*, often: bool) -> tuple[dict[object, set[object]], list[Place]]:
    """Explore a node without MAAS by the stimuli that do not concern its BMC: return what `explore` returns, and one
    place of each kind. The walk takes longer than what the tests check on it, so they share it."""
    stimuli = {
        name: each
        for name, each in STIMULI.items()
        if not name.startswith(OF_THE_BMC) and (not often or name.startswith(OFTEN))
    }
    places: list[Place] = []
    found = explore([Place(fresh, NOW) for fresh in FRESH_NODES], stimuli, found_in=places)
    assert len(found) > 1000, "the walk has not gone far"
    return found, places


def follow(place: Place, name: str, stimulus: Stimulus) -> Place | None:
    """The place to which a stimulus leads; None if the stimulus cannot happen."""
    touched = None if place.node.status is N.DELETED else stimulus(place)
    if touched is None:
        return None
    try:
        way = list(rest(touched))
        holds_at_rest(way[-1])
        assert not escapes(place.node, way, name.partition(" ")[0]), "a quarantine was escaped"
    except (AssertionError, FarrierError) as error:
        raise AssertionError(f"after {name!r} at {place}") from error
    return way[-1]


def reach(found: dict[object, set[object]], goals: set[object]) -> set[object]:
    """The places from which some goal can be reached."""
    back: dict[object, set[object]] = {}
    for here, further in found.items():
        for there in further:
            back.setdefault(there, set()).add(here)
    reached, new = set(goals), deque(goals)
    while new:
        for before in back.get(new.popleft(), set()) - reached:
            reached.add(before)
            new.append(before)
    return reached
