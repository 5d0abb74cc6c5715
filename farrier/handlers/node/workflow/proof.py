"""Judges the evidence of the cleaning stages, and decides which cleaning lets a node return to service.

The site's `cleaning.require` says what must be proven. A stage whose evidence contradicts its success has always
failed. If the evidence is missing or incomplete, the stage has failed if the site requires evidence; otherwise the
stage is done, and a note on the node says that it is unproven. Every way from `retired` back to service calls
`not_to_return`.
"""

from __future__ import annotations

from typing import assert_never

from msgspec.structs import replace

from farrier.handlers.node.changes import Done, Failed, Policy, own, with_fields, with_note
from farrier.handlers.node.workflow import cleaning_conditions
from farrier.model.maas.reading import MaasStatus
from farrier.model.node import evidence
from farrier.model.node.evidence import (
    By,
    Cleaned,
    Contradicted,
    DeviceKind,
    Judged,
    Proven,
    Require,
    UnprovenCleaning,
    Verdict,
)
from farrier.model.node.failures import FailureClass
from farrier.model.node.layers import CleaningBy, DecommissionMode, OnboardingMode
from farrier.model.node.snapshot import Node, Task, TaskType
from farrier.model.node.stages import IN_ITS_OWN_SYSTEM, PATHS, DecommissionStage

_D = DecommissionStage
STAGE_OF = {
    TaskType.CLEANUP_STORAGE: _D.CLEANUP_STORAGE,
    TaskType.SCRUB_GPU: _D.SCRUB_GPU,
    TaskType.VALIDATE_CLEAN: _D.VALIDATE_CLEAN_NODE,
}
"""The stages of the tasks that clean a machine or check that it is clean."""

_SOFT_RESET = DecommissionMode.SOFT_RESET

_WEAKEST_FIRST = (By.AGENT, By.WORKER, By.REGION)


def require_of(node: Node, policy: Policy) -> Require:
    """Return what the node's site requires."""
    site = policy.site_of(node)
    return Require.NONE if site is None else site.cleaning.require


def kinds(mode: DecommissionMode, stage: DecommissionStage) -> tuple[DeviceKind, ...]:
    """Return the devices about which a stage needs evidence. A validation reads the disks again that this mode erases;
    nothing can be read again of the memory of GPUs."""
    if stage is _D.SCRUB_GPU:
        return (DeviceKind.GPU,)
    return (DeviceKind.DISK,) if _D.CLEANUP_STORAGE in PATHS[mode] else ()


def of_task(node: Node, task: Task) -> Verdict | None:
    """Return what the evidence of a task proves; None if the task has nothing to prove."""
    if task.type not in STAGE_OF:
        return None
    wanted = kinds(own(node).mode, STAGE_OF[task.type])
    if not wanted and task.evidence is None:
        return None
    return evidence.judge(task.evidence, node.expected, wanted)


def why_refused(node: Node, policy: Policy, verdict: Verdict | None) -> str | None:
    """Return why a cleaning stage with this verdict has failed, or None."""
    match verdict:
        case None:
            return None
        case Contradicted():
            return f"its evidence contradicts its success: {verdict.why}"
        case UnprovenCleaning() | Proven():
            by = verdict.by if isinstance(verdict, Proven) else None
            require = require_of(node, policy)
            short = evidence.shortfall(require, by)
            if short is None:
                return None
            detail = f": {verdict.why}" if isinstance(verdict, UnprovenCleaning) else ""
            return f"{short}{detail} (cleaning.require of site {node.site} is {require})"
        case _ as never:
            assert_never(never)


def settled(node: Node, policy: Policy, done: Done, verdict: Verdict | None) -> Done | Failed:
    """Return the result of a cleaning stage that is done, after its evidence was judged."""
    stage = own(node).stage
    if verdict is None or stage is None:
        return done
    if (why := why_refused(node, policy, verdict)) is not None:
        return Failed(failure=FailureClass.VALIDATION_FAILED, detail=f"{done.reason}, but {why}")
    to = done.to or node
    if isinstance(verdict, Proven):
        judged, said = Judged(stage, by=verdict.by), f"proven by the {verdict.by}"
        to = cleaning_conditions.proven(to, stage)
    else:
        judged, said = Judged(stage, why=verdict.why), f"unproven: {verdict.why}"
        to = cleaning_conditions.unproven(to, stage, verdict.why)
    kept = tuple(each for each in own(to).memo.judged if each.stage != stage)
    return replace(done, to=with_note(to, judged=(*kept, judged)), reason=f"{done.reason}; {said}")


def with_proof(node: Node) -> Node:
    """Return the node after its last cleaning stage, with the proof of the cleaning if each of its stages is proven."""
    workflow = own(node)
    skipped = {each.stage for each in workflow.skipped}
    proved = {each.stage: each.by for each in workflow.memo.judged}
    needed = [stage for stage in STAGE_OF.values() if stage in PATHS[workflow.mode] and kinds(workflow.mode, stage)]
    by = [proved.get(stage) for stage in needed if stage not in skipped]
    if len(by) < len(needed):
        return node
    weakest = min((_WEAKEST_FIRST.index(each) if each is not None else -1 for each in by), default=-1)
    return node if weakest < 0 else with_fields(node, cleaned=Cleaned(_WEAKEST_FIRST[weakest], workflow.id))


def why_not_in_mode(node: Node, policy: Policy, mode: DecommissionMode) -> str | None:
    """Return why no cleaning in this mode can prove what the node's site requires, or None."""
    require, site = require_of(node, policy), policy.site_of(node)
    if site is None or require is Require.NONE:
        return None
    if mode is DecommissionMode.REIMAGE:
        return never_from_outside(node, policy)
    if mode not in IN_ITS_OWN_SYSTEM:
        return None
    if require is Require.EVIDENCE and (mode is _SOFT_RESET or site.cleaning.by is CleaningBy.WORKER):
        return None
    lacks = (
        "no evidence from outside the machine's system"
        if require is Require.OUTSIDE
        else ("no evidence that the disks of the machine's own system are erased")
    )
    instead = never_from_outside(node, policy) or f"use mode {DecommissionMode.REIMAGE}"
    return f"mode {mode} gives {lacks}, but cleaning.require of site {node.site} is {require}; {instead}"


def never_from_outside(node: Node, policy: Policy) -> str | None:
    """Return why the region cannot give the evidence from outside that the node's site requires, and the next step;
    None if it can, or if the site does not require it. The region cleans only machines that MAAS installed."""
    if require_of(node, policy) is not Require.OUTSIDE:
        return None
    seen = node.maas
    if node.maas_id is None:
        why = "the node has no machine in MAAS"
    elif seen is not None and seen.state is MaasStatus.NEW and seen.power_state == "on":
        why = f"MAAS never installed the machine, which is {seen.state} and switched on"
    else:
        return None
    return (
        f"{why}, so its region cannot clean it from outside; drain and remove the node, then register it again and "
        f"onboard it in mode {OnboardingMode.DEPLOY}"
    )


def not_to_return(node: Node, policy: Policy) -> str | None:
    """Return why a retired node may not return to service, or None. Only cleaning since its last service counts."""
    require = require_of(node, policy)
    short = evidence.shortfall(require, None if node.cleaned is None else node.cleaned.by)
    if short is None:
        return None
    instead = never_from_outside(node, policy)
    return (
        f"the node must be cleaned first: {short} since the node was in service, and cleaning.require of site "
        f"{node.site} is {require}{f'; {instead}' if instead else ''}"
    )
