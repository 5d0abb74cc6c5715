"""No rule of a node starves behind another: its write, move or step comes within a few runs.

Drives the real handler over simulated time, with BMCs that are slow or silent, regions that are away, and agents that
claim tasks or ignore them. `tests.support.stored` stands in for the database.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from farrier.config import ControllerConfig, NodeConfig
from farrier.config.sites import NetworkSite, Site
from farrier.handlers.node.changes import Decision, Policy
from farrier.handlers.node.handler import RULES, RULES_FOR, NodeHandler
from farrier.model.intents.actions import Action
from farrier.model.loop.outcome import DoNothing, Step, Transition, Update, Wait
from farrier.model.machine.bmc import BmcFailure, PowerState
from farrier.model.network.uses import NodeNetworks, SegmentUse
from farrier.model.node.layers import DecommissionMode, OnboardingMode
from farrier.model.node.layers import Management as M
from farrier.model.node.layers import NodeStatus as N
from farrier.model.node.layers import WorkflowStatus as W
from farrier.model.node.snapshot import Bmc, Node, TaskStatus, TaskType, WorkflowOptions
from farrier.model.node.stages import DecommissionStage as D
from farrier.model.node.stages import OnboardingStage as O
from farrier.model.node.writes import CreateTask
from tests.support.exploration import Played, acted
from tests.support.nodes import (
    MINUTE,
    NOW,
    SECOND,
    agent,
    answers,
    decide,
    decommission,
    intent,
    moved,
    onboarding,
    task,
    with_bmc,
    writes,
)
from tests.support.played_region import DEPLOYED, SYSTEM_ID, PlayedRegion, seen
from tests.support.stages import SITE
from tests.support.stored import OPEN, stored

PERIOD = ControllerConfig().period
# The time from a commit to the next run that follows at once.
SOON = timedelta(milliseconds=5)
# Largest number of successive runs in which a rule's decision may be passed over. Transitions do not count.
RUNS_AT_MOST = 4
# The number of successive runs that may each require another run at once.
AT_ONCE_AT_MOST = 25
OF_THE_BMC = ("read_power", "verify", "adopt", "watch_credential", "set_power")


class Circumstances(msgspec.Struct, frozen=True):
    """A node's circumstances: the BMC's response time, whether BMC and region respond, and what its agent does."""

    interval: timedelta
    takes: timedelta
    bmc_answers: bool
    region_answers: bool
    claims: bool
    lease: timedelta
    renews: bool

    @property
    def config(self) -> NodeConfig:
        return NodeConfig(power_sync_interval=self.interval)


READ = Bmc(power=PowerState.ON, power_at=NOW, good_version="v1", system_path="/redfish/v1/Systems/1")
FORCED = WorkflowOptions(force=True, reason="dead")
SOFT: dict[str, Any] = {"mode": DecommissionMode.SOFT_RESET}
IN_MAAS = {"site": SITE.name, "maas_id": SYSTEM_ID}


def drains(bmc: Bmc = READ, management: M = M.MANAGEABLE, **fields: Any) -> Node:
    held = task(TaskType.DRAIN, TaskStatus.DISPATCHED, lease_until=NOW)
    draining = decommission(D.DRAIN_NODE, **SOFT | fields)
    return with_bmc(management, bmc, status=N.DRAINING, workflow=draining, tasks=(held,), agent=agent())


def deploys(stage: O, management: M = M.MANAGEABLE, bmc: Bmc = READ) -> Node:
    job = onboarding(mode=OnboardingMode.DEPLOY, stage=stage)
    return with_bmc(management, bmc, workflow=job, maas=seen(DEPLOYED, NOW, None), **IN_MAAS)


# A segment with a free address, which this node never gets.
LAN = Site(name="south", maas=SITE.maas, network=NetworkSite(segments=("lan",)))
SITES = {SITE.name: SITE, LAN.name: LAN}
NEVER_HAD = NodeNetworks(segments=(SegmentUse(name="lan", state="ready", site=LAN.name, free=True),))

STARTS: dict[str, Node] = {
    "a drain whose lease ran out": drains(),
    "a forced drain": drains(options=FORCED),
    "a drain while the BMC refuses logins": drains(replace(READ, sync_failure=BmcFailure.AUTH, sync_failures=3)),
    "a drain while power is switched back": drains(replace(READ, desired_power=PowerState.OFF)),
    "a drain while the BMC is verified": drains(Bmc(asked_at=NOW), M.ENROLL),
    "a scrub": with_bmc(
        M.MANAGEABLE, READ, status=N.RETIRED, workflow=decommission(D.SCRUB_GPU, **SOFT), agent=agent(heard=NOW)
    ),
    "a forced reset": with_bmc(
        M.MANAGEABLE,
        READ,
        status=N.ACTIVE,
        workflow=decommission(D.DISABLE_NODE, options=FORCED, **SOFT),
        agent=agent(),
    ),
    "a release in MAAS": with_bmc(
        M.MANAGEABLE, READ, status=N.RETIRED, workflow=decommission(D.RELEASE_MAAS_NODE), **IN_MAAS
    ),
    "a release of a node that is to be verified": with_bmc(
        M.ENROLL, Bmc(), status=N.RETIRED, workflow=decommission(D.RELEASE_MAAS_NODE), **IN_MAAS
    ),
    "an onboarding in MAAS": deploys(O.CREATE_OR_FIND_IN_MAAS),
    "an onboarding that renders": deploys(O.RENDER_CLOUD_INIT),
    "an onboarding whose address another client has locked": replace(
        deploys(O.APPLY_ROCE_PHASE2), site=LAN.name, networks=NEVER_HAD
    ),
    "an undo in MAAS": with_bmc(
        M.MANAGEABLE,
        READ,
        workflow=onboarding(W.COMPENSATING, mode=OnboardingMode.DEPLOY, stage=O.WAIT_FOR_DEPLOYED),
        **IN_MAAS,
    ),
}


def wants(decision: Decision | None) -> tuple[str, str] | None:
    """What a decision does besides waiting, as kind and name; None if it only waits."""
    match decision:
        case None | DoNothing():
            return None
        case Wait():
            return ("write", repr(decision.writes)) if decision.writes else None
        case Step():
            return ("step", decision.name)
        case Transition() | Update():
            return ("change", decision.reason)
        case _:
            return ("end", "")


def policy_of(around: Circumstances) -> Policy:
    return Policy(**msgspec.structs.asdict(around.config), sites=SITES)


def agents_turn(node: Node, around: Circumstances, now: Any) -> Node:
    """The node after its agent has claimed queued tasks and renewed leases, as far as `around` says that it does."""

    def touched(one: Any) -> Any:
        if one.status is TaskStatus.QUEUED and around.claims:
            return replace(one, status=TaskStatus.DISPATCHED, lease_until=now + around.lease)
        if one.status is TaskStatus.DISPATCHED and around.renews:
            return replace(one, lease_until=now + around.lease)
        return one

    return replace(node, tasks=tuple(touched(one) for one in node.tasks), agent=node.agent and agent(heard=now))


def live(node: Node, around: Circumstances, runs: int = 120) -> None:
    """Make `runs` runs. Fails if a rule's decision is passed over too often, or if runs require another run at once
    without end."""
    handler, policy = NodeHandler(around.config, sites=SITES), policy_of(around)
    now, passed, in_a_row = NOW, dict.fromkeys((rule.decide for rule in RULES), 0), 0
    for _ in range(runs):
        began, decision = now, handler.handle(node, now)
        done = wants(decision)
        for rule in RULES_FOR[node.status, node.management, node.workflow is not None, node.deleting]:
            want = wants(rule(node, now, policy))
            stays = not isinstance(decision, Transition)
            passed[rule] = 0 if want in (None, done) else passed[rule] + stays
            assert passed[rule] <= RUNS_AT_MOST, f"{want} waits behind {done} at {node}"
        if isinstance(decision, Step):
            takes = around.takes if decision.name in OF_THE_BMC else SOON
            decision = acted(
                decision, Played(around.bmc_answers), PlayedRegion(DEPLOYED, answers=around.region_answers)
            )
            now += takes
        after = decision.to if isinstance(decision, Transition | Update) else node
        node = stored(node, after, writes(decision), now)
        requeue_after = timedelta(0) if isinstance(decision, Transition) else getattr(decision, "requeue_after", None)
        pause = min(PERIOD, PERIOD if requeue_after is None else max(requeue_after, timedelta(0)))
        in_a_row = 0 if pause or now - began >= SECOND else in_a_row + 1
        assert in_a_row <= AT_ONCE_AT_MOST, f"never rests: {node}"
        now += max(pause, SOON)
        if pause:
            node = agents_turn(node, around, now)


AROUND = st.builds(
    Circumstances,
    interval=st.integers(1, 290).map(lambda seconds: timedelta(seconds=seconds)),
    takes=st.integers(0, 59).map(lambda seconds: timedelta(seconds=seconds)),
    bmc_answers=st.booleans(),
    region_answers=st.booleans(),
    claims=st.booleans(),
    lease=st.integers(1, 900).map(lambda seconds: timedelta(seconds=seconds)),
    renews=st.booleans(),
)


@pytest.mark.matrix(keep=4)
@settings(deadline=None, max_examples=25)
@pytest.mark.parametrize("start", STARTS)
@given(around=AROUND, number=st.integers(1, 10_000))
def test_every_rule_is_carried_out_within_a_few_runs(start: str, around: Circumstances, number: int) -> None:
    live(replace(STARTS[start], id=number), around)


@pytest.mark.parametrize("interval", [15, 17, 20])
def test_a_task_whose_lease_expired_is_issued_again_regardless_of_power_reads(interval: int) -> None:
    handler = NodeHandler(NodeConfig(power_sync_interval=timedelta(seconds=interval)))
    due = drains(replace(READ, power_at=NOW - 2 * MINUTE))
    decision = handler.handle(due, NOW)
    assert [w.type for w in writes(decision) if isinstance(w, CreateTask)] == [TaskType.DRAIN]
    assert isinstance(decision, Wait) and decision.requeue_after == timedelta(0), "the BMC is read at once"


def test_answers_and_writes_of_rules_are_committed_before_a_step() -> None:
    due = drains(replace(READ, power_at=NOW - 2 * MINUTE))
    asked = replace(due, intents=(intent(Action.RELEASE),))
    first = decide(asked)
    assert [verdict for verdict, _ in answers(first)] == ["rejected"]
    assert any(isinstance(w, CreateTask) for w in writes(first))
    second = decide(stored(asked, asked, writes(first), NOW))
    assert isinstance(second, Step) and second.name == "read_power"


def test_an_answer_does_not_wait_for_a_step() -> None:
    due = with_bmc(M.MANAGEABLE, replace(READ, power_at=NOW - 2 * MINUTE), status=N.ACTIVE, agent=agent(heard=NOW))
    asked = replace(due, intents=(intent(Action.RELEASE),))
    first = decide(asked)
    assert isinstance(first, Wait) and [verdict for verdict, _ in answers(first)] == ["rejected"]
    assert isinstance(decide(stored(asked, asked, writes(first), NOW)), Step)


def test_an_intent_before_each_run_does_not_keep_a_silent_node_in_service() -> None:
    asked = replace(
        with_bmc(M.UNMANAGED, Bmc(), status=N.ACTIVE, agent=agent(heard=NOW - 60 * MINUTE)),
        intents=(intent(Action.UNPAUSE),),
    )
    decision = decide(asked)
    assert moved(decision).status is N.OFFLINE
    assert [verdict for verdict, _ in answers(decision)] == ["accepted"]


def test_an_intent_before_each_run_does_not_prevent_the_reissue_of_an_expired_task() -> None:
    decision = decide(replace(drains(), intents=(intent(Action.RELEASE),)))
    assert [w.type for w in writes(decision) if isinstance(w, CreateTask)] == [TaskType.DRAIN]
    assert [verdict for verdict, _ in answers(decision)] == ["rejected"]


def test_writes_of_rules_are_dropped_in_a_run_that_moves_the_node() -> None:
    """The next run decides again, for the moved node."""
    silent = drains(status_entered_at=NOW)
    quiet = replace(silent, workflow=decommission(D.DRAIN_NODE, stop_requested="frozen", **SOFT))
    decision = decide(quiet)
    assert moved(decision).status is N.OFFLINE
    assert not any(isinstance(w, CreateTask) for w in writes(decision))


def test_the_starts_contain_open_tasks_that_could_starve() -> None:
    """Without open tasks, the walks above would prove nothing."""
    assert all(node.workflow is not None for node in STARTS.values())
    assert any(one.status in OPEN for one in STARTS["a drain whose lease ran out"].tasks)
    assert SECOND < PERIOD
