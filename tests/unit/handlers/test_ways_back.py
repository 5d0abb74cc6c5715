"""Every way of a node from `retired` back to service: where the site requires evidence, no way does without it.

A walk follows all decisions of the handler from a node in service: through each intent, and with each result that an
agent may report. So a new way back that forgets the evidence fails here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from farrier.config import NodeConfig
from farrier.config.sites import CleaningSite
from farrier.handlers.node.handler import NodeHandler
from farrier.model.intents.actions import Action
from farrier.model.loop.outcome import Step, Wait
from farrier.model.maas.reading import StatusNumber
from farrier.model.node import edges
from farrier.model.node.evidence import (
    By,
    Cleaned,
    Device,
    DeviceKind,
    DeviceResult,
    Evidence,
    ExpectedDevices,
    Part,
    Require,
)
from farrier.model.node.layers import CleaningBy, DecommissionMode, Layer, Management, OnboardingMode
from farrier.model.node.layers import NodeStatus as N
from farrier.model.node.snapshot import Decommission, Memo, Node, TaskStatus, TaskType, WorkflowOptions
from farrier.model.node.stages import DecommissionStage as D
from farrier.model.node.stages import OnboardingStage as O
from farrier.model.node.writes import CreateTask, EndTask
from tests.support.nodes import (
    MINUTE,
    NOW,
    agent,
    answers,
    decommission,
    intent,
    moved,
    node,
    onboarding,
    task,
    with_bmc,
    writes,
)
from tests.support.played_region import SYSTEM_ID, Shown, seen
from tests.support.stages import SITE

EXPECTED = ExpectedDevices(disks=(Part(serial="S1"),), gpus=(Part(serial="G1"),))
IN_SERVICE = (N.ACTIVE, N.OFFLINE)
FORCE = {"force": True, "reason": "it is dead"}
LATER = NOW + NodeConfig().force_after
INTENTS: tuple[tuple[Action, dict[str, Any]], ...] = (
    (Action.DRAIN, {}),
    (Action.REACTIVATE, {}),
    (Action.ONBOARD, {"mode": "manual"}),
    *((Action.DECOMMISSION, {"mode": mode.value}) for mode in DecommissionMode),
    (Action.DECOMMISSION, {"mode": "soft_reset", "retire": True}),
    (Action.DECOMMISSION, {"mode": "soft_reset", **FORCE}),
    (Action.REMOVE, {}),
    (Action.CANCEL, {}),
    (Action.RESUME, {}),
    (Action.RERUN, {}),
    (Action.RESTART_CLEAN, {}),
    (Action.ADOPT_OBSERVED_STATE, {}),
    (Action.RELEASE, {"key": "cleaning/not_scrubbed", "reason": "cleaned by hand"}),
    (Action.RELEASE, {"key": "cleaning/validation_failed", "reason": "cleaned by hand"}),
)


def handler(require: Require) -> NodeHandler:
    site = replace(SITE, maas=None, cleaning=CleaningSite(by=CleaningBy.WORKER, require=require))
    return NodeHandler(NodeConfig(max_task_attempts=1), sites={site.name: site})


def erased(by: By) -> Evidence:
    devices = (
        Device(kind=DeviceKind.DISK, serial="S1", result=DeviceResult.ERASED),
        Device(kind=DeviceKind.GPU, serial="G1", result=DeviceResult.ERASED),
    )
    return Evidence(by=by, devices=devices)


def after(it: Node, decision: Any) -> Node:
    """The node after the commit of a decision, with the tasks that it creates and ends."""
    to: Node = getattr(decision, "to", None) or it
    tasks = {each.type: each for each in to.tasks}
    for write in writes(decision):
        match write:
            case EndTask():
                ended = {each.id: each for each in tasks.values()}[write.task]
                tasks[ended.type] = replace(ended, status=write.status, result=write.result)
            case CreateTask():
                tasks[write.type] = task(write.type, write.ended or TaskStatus.QUEUED, created_at=NOW)
            case _:
                pass
    if to.workflow is not None and to.workflow.status in ("completed", "cancelled", "reconciled"):
        to, tasks = replace(to, workflow=None), {}
    return replace(to, tasks=tuple(tasks.values()), intents=())


def results(it: Node) -> Iterator[Node]:
    """The node after each result that somebody may report for one of its tasks."""
    for each in it.tasks:
        if each.is_live:
            rest = tuple(other for other in it.tasks if other is not each)
            for status, told in (
                (TaskStatus.SUCCEEDED, None),
                (TaskStatus.SUCCEEDED, erased(By.AGENT)),
                (TaskStatus.FAILED, None),
            ):
                yield replace(it, tasks=(*rest, replace(each, status=status, evidence=told)))


def ways(it: Node, by: NodeHandler) -> Iterator[Node]:
    """The nodes that one run, one intent, or one result makes of this node."""
    decision = by.handle(it, NOW)
    if getattr(decision, "to", None) is not None or writes(decision):
        yield after(it, decision)
        return  # the loop runs the node again at once
    yield from results(it)
    if it.workflow is not None and it.workflow.options.force:
        yield after(it, by.handle(it, LATER))
    for action, params in INTENTS:
        asked = by.handle(replace(it, intents=(intent(action, **params),)), NOW)
        if not isinstance(asked, Step) and answers(asked) and answers(asked)[0][0] == "accepted":
            yield after(it, asked)


def key(it: Node) -> Any:
    """What distinguishes nodes in this walk."""
    job = it.workflow
    tasks = tuple(sorted((each.type, each.status, repr(each.evidence)) for each in it.tasks))
    conditions = tuple(sorted((*each.key, each.effect) for each in it.conditions))
    parts = () if job is None else (type(job), job.mode, job.stage, job.status, job.stop_requested, job.after_undo)
    options = () if job is None else (job.options.retire, job.options.force, job.options.leave_out, job.memo.judged)
    skipped = () if job is None else tuple(each.stage for each in job.skipped)
    return it.status, it.cleaned, it.redeploying, it.agent is None, parts, options, skipped, tasks, conditions


def walked(starts: list[Node], by: NodeHandler) -> list[tuple[Node, Node]]:
    """Every step of the walk from these nodes, as (before, after)."""
    seen, left, steps = {key(each) for each in starts}, starts, []
    while left:
        it = left.pop()
        for to in ways(it, by):
            steps.append((it, to))
            if key(to) not in seen:
                seen.add(key(to))
                left.append(to)
    return steps


def starts() -> list[Node]:
    """A node in service, without a workflow and in each decommission that began before the site required evidence."""
    it = node(N.ACTIVE, site=SITE.name, agent=agent(heard=LATER), expected=EXPECTED)
    begun = (
        decommission(D.DISABLE_NODE, mode=mode, options=WorkflowOptions(leave_on=True)) for mode in DecommissionMode
    )
    return [it, *(replace(it, workflow=each) for each in begun if each.mode is not DecommissionMode.REIMAGE)]


def test_a_retired_node_leaves_only_by_the_edges_that_this_module_walks() -> None:
    out = {target for source, target in edges.ALLOWED[Layer.STATUS] if source == N.RETIRED}
    assert out == {N.OFFLINE, N.REMOVING}


@pytest.mark.parametrize(
    ("require", "enough"),
    [
        (Require.EVIDENCE, {By.AGENT}),
        (Require.OUTSIDE, set()),  # only the region's evidence counts, and this site has no region
    ],
)
def test_no_way_back_does_without_the_cleaning_that_the_site_requires(require: Require, enough: set[By]) -> None:
    steps = walked(starts(), handler(require))
    cleaning = {TaskType.CLEANUP_STORAGE, TaskType.SCRUB_GPU}
    assert {each.type for _, to in steps for each in to.tasks} >= cleaning, "the walk meets the tasks that clean"
    returns = [to for was, to in steps if was.status is N.RETIRED and to.status in IN_SERVICE]
    assert {to.cleaned and to.cleaned.by for to in returns} == enough
    drained = [to for was, to in steps if was.status is N.DRAINING and to.status is N.RETIRED]
    assert {to.cleaned for to in drained} == {None}, "a cleaning counts only until the node is used again"


# --- the ways that need MAAS or another agent, from the state before their last step


RETIRED: dict[str, Any] = {"site": SITE.name, "maas_id": "abc123", "agent": agent(), "expected": EXPECTED}
ENROLLED = onboarding(
    mode=OnboardingMode.MANUAL, stage=O.WAIT_FOR_AGENT_ENROLLMENT, mode_given_at=agent().enrolled_at - MINUTE
)


def last(mode: DecommissionMode) -> Decommission:
    return decommission(
        D.RETIRE_GPUAAS_NODE, mode=mode, options=WorkflowOptions(leave_out=(D.REMOVE_MAAS_RECORD,)), memo=Memo()
    )


CASES = {
    "the end of a soft reset": node(N.RETIRED, workflow=last(DecommissionMode.SOFT_RESET), **RETIRED),
    "the end of a cleanup of storage": node(N.RETIRED, workflow=last(DecommissionMode.STORAGE_CLEANUP), **RETIRED),
    "the end of an onboarding": node(N.RETIRED, workflow=ENROLLED, **RETIRED),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(
    ("require", "cleaned", "returns"),
    [
        (Require.NONE, None, True),
        (Require.EVIDENCE, None, False),
        (Require.EVIDENCE, Cleaned(By.AGENT, 1), True),
        (Require.EVIDENCE, Cleaned(By.WORKER, 1), True),
        (Require.OUTSIDE, Cleaned(By.WORKER, 1), False),
        (Require.OUTSIDE, Cleaned(By.REGION, 1), True),
    ],
)
def test_the_end_of_a_workflow_returns_only_a_node_with_the_required_proof(
    name: str, require: Require, cleaned: Cleaned | None, returns: bool
) -> None:
    decision = handler(require).handle(replace(CASES[name], cleaned=cleaned), NOW)
    to = getattr(decision, "to", CASES[name])
    assert (to.status is N.OFFLINE) == returns
    said = getattr(decision, "reason", "")
    assert returns or (
        "the node must be cleaned first" in said and f"cleaning.require of site north is {require}" in said
    )


def test_a_reimage_installs_only_a_node_with_the_required_proof() -> None:
    emptied = node(N.RETIRED, redeploying=True, **RETIRED)
    decision = handler(Require.OUTSIDE).handle(emptied, NOW)
    assert isinstance(decision, Wait) and "farrier does not install the node" in decision.reason
    proven = replace(emptied, cleaned=Cleaned(By.REGION, 1))
    assert moved(handler(Require.OUTSIDE).handle(proven, NOW)).workflow is not None


@pytest.mark.parametrize("params", [{"mode": "manual"}, {"mode": "deploy"}])
def test_no_onboarding_of_a_retired_node_begins_without_the_required_proof(params: dict[str, Any]) -> None:
    it = with_bmc(Management.MANAGEABLE, status=N.RETIRED, site=SITE.name, intents=(intent(Action.ONBOARD, **params),))
    site = replace(SITE, cleaning=CleaningSite(require=Require.EVIDENCE))
    by = NodeHandler(NodeConfig(), sites={site.name: site})
    ((verdict, reason),) = answers(by.handle(it, NOW))
    assert verdict == "rejected" and "the node must be cleaned first: no evidence proves it" in reason


UNINSTALLED: dict[str, dict[str, Any]] = {
    "not in MAAS": {"maas_id": None},
    "never installed": {"maas_id": SYSTEM_ID, "maas": seen(Shown(status=StatusNumber.NEW), NOW, None)},
}
NEXT_STEP = "drain and remove the node, then register it again and onboard it in mode deploy"


def from_outside() -> NodeHandler:
    site = replace(SITE, cleaning=CleaningSite(require=Require.OUTSIDE))
    return NodeHandler(NodeConfig(), sites={site.name: site})


@pytest.mark.parametrize("fields", UNINSTALLED.values(), ids=UNINSTALLED)
@pytest.mark.parametrize(
    ("status", "action", "params"),
    [
        (N.ACTIVE, Action.DECOMMISSION, {"mode": "soft_reset"}),
        (N.ACTIVE, Action.DECOMMISSION, {"mode": "reimage"}),
        (N.RETIRED, Action.ONBOARD, {"mode": "manual"}),
    ],
)
def test_what_can_never_be_cleaned_from_outside_is_refused_with_the_next_step(
    status: N, action: Action, params: dict[str, Any], fields: dict[str, Any]
) -> None:
    it = node(status, site=SITE.name, agent=agent(), intents=(intent(action, **params),), **fields)
    ((verdict, reason),) = answers(from_outside().handle(it, NOW))
    assert verdict == "rejected" and NEXT_STEP in reason, reason


def test_a_machine_that_maas_installed_is_to_be_reimaged_instead_of_reset() -> None:
    asked = (intent(Action.DECOMMISSION, mode="soft_reset"),)
    it = node(N.ACTIVE, site=SITE.name, agent=agent(), maas_id=SYSTEM_ID, intents=asked)
    ((verdict, reason),) = answers(from_outside().handle(it, NOW))
    assert verdict == "rejected" and reason.endswith("use mode reimage")


def test_a_machine_that_maas_never_installed_is_not_cleaned_in_vain_by_its_agent() -> None:
    job = decommission(
        D.CLEANUP_STORAGE,
        mode=DecommissionMode.FULL_DECOMMISSION,
        options=WorkflowOptions(cleaned_by=CleaningBy.REGION),
    )
    it = node(N.RETIRED, site=SITE.name, agent=agent(), workflow=job, **UNINSTALLED["never installed"])
    stopped = moved(from_outside().handle(it, NOW))
    assert stopped.workflow is not None and NEXT_STEP in (stopped.workflow.failure_detail or "")
