"""The response to intent `adopt_observed_state`: the workflow continues from the state in MAAS.

The decision uses only fresh observations. A machine of another user is not adopted. A repeated intent changes nothing.
"""

from __future__ import annotations

from datetime import datetime
from typing import assert_never

from msgspec.structs import replace

from farrier.handlers.node import onboarding_adopt, region
from farrier.handlers.node.decommission import adopted
from farrier.handlers.node.moves import Done, Policy, with_note, with_workflow
from farrier.handlers.node.onboarding.completion import complete
from farrier.handlers.node.onboarding.wait_for_agent_enrollment import unready, wait_for_agent_enrollment
from farrier.handlers.node.reply import Accept, Reject, Reply, Request
from farrier.handlers.node.stages import continued
from farrier.model.maas import MaasStatus as M
from farrier.model.node import Decommission, Node, Onboarding
from farrier.model.observation import MaasObservation
from farrier.model.stages import DETOUR, PATHS
from farrier.model.stages import OnboardingStage as O
from farrier.model.workflow import OnboardingMode
from farrier.model.workflow import WorkflowStatus as W

_ACTION = "adopt_observed_state"
# The stage at which a deployment continues if MAAS shows its machine in this state.
_GOES_ON_AT = {
    M.COMMISSIONING: O.WAIT_FOR_READY,
    M.READY: O.CONFIGURE_STORAGE,
    M.DEPLOYING: O.WAIT_FOR_DEPLOYED,
    M.DEPLOYED: O.WAIT_FOR_AGENT_ENROLLMENT,
}
_PATH = PATHS[OnboardingMode.DEPLOY]
_AFTER_DEPLOYING = frozenset(_PATH[_PATH.index(O.WAIT_FOR_DEPLOYED) :]) | DETOUR


def adopt_observed_state(request: Request) -> Reply:
    """Continue from the observed state, or complete the workflow if this state is the goal."""
    node, now, policy = request.node, request.now, request.config
    workflow = node.live
    match workflow:
        case Onboarding(mode=OnboardingMode.DEPLOY):
            return _of_deployment(node, now, policy)
        case Onboarding():
            return _of_health(node, now, policy)
        case Decommission():
            return _of_decommission(node, now, policy)
        case _ as never:
            assert_never(never)


def _of_health(node: Node, now: datetime, policy: Policy) -> Reply:
    if onboarding_adopt.adopts(node) and not onboarding_adopt.is_proven(node):
        return _no("no read has confirmed the recorded machine yet; submit adopt")
    unproven = unready(node, now, policy)
    if unproven is not None:
        return _no(f"the target is a healthy node: {unproven}")
    return Accept(reason="the observed state is the target state", to=complete(node, ending=W.RECONCILED))


def _of_deployment(node: Node, now: datetime, policy: Policy) -> Reply:
    seen = _fresh(node, now, policy)
    if isinstance(seen, Reject):
        return seen
    stage = _GOES_ON_AT.get(seen.state)
    if stage is None:
        return _no(f"MAAS reports {seen.state}; farrier can continue only from: {', '.join(_GOES_ON_AT)}")
    if seen.state in (M.DEPLOYING, M.DEPLOYED) and not seen.ours:
        known = (
            "it is not known whether farrier's user owns it"
            if region.is_undecided(seen)
            else "farrier's user does not own it"
        )
        return _no(f"machine {seen.system_id} is {seen.state}, but {known}")
    to = _adopted(node, stage, seen.state, now)
    if stage is O.WAIT_FOR_AGENT_ENROLLMENT and isinstance(wait_for_agent_enrollment(to, now, policy), Done):
        return Accept(reason="the observed state is the target state", to=complete(to, ending=W.RECONCILED))
    reason = f"MAAS reports {seen.state}; the workflow continues at stage {stage}"
    return Accept(reason=reason, to=None if to == node else to)


def _adopted(node: Node, stage: O, state: M, now: datetime) -> Node:
    """Return the node at `stage`. The workflow continues as if it had requested the state in MAAS, but an undo of the
    workflow leaves this state in place."""
    workflow = node.live
    known = workflow.memo
    if state in (M.COMMISSIONING, M.READY):  # the earlier deployment is gone
        known = replace(known, disowned=known.deploys)
    elif known.deploys <= known.disowned and not (known.deploys and workflow.stage in _AFTER_DEPLOYING):
        # Unless MAAS is installing the system now, its agent may have enrolled at any earlier time.
        begun = now if state is M.DEPLOYING else None
        known = replace(known, deploys=known.deploys + 1, disowned=known.deploys + 1, asked_at=begun, deployed_at=None)
    return with_workflow(continued(with_workflow(node, memo=known)), stage=stage)


def _of_decommission(node: Node, now: datetime, policy: Policy) -> Reply:
    """Continue the decommission. If MAAS already shows the goal of a stage, the stage has nothing to do; all other
    stages still run."""
    workflow = node.workflow
    assert isinstance(workflow, Decommission), "the caller has checked this"
    stages = adopted.left(workflow)
    if not stages:
        return _no(f"the remaining stages of this {workflow.mode} do not depend on the state in MAAS")
    seen = _fresh(node, now, policy)
    if isinstance(seen, Reject):
        return seen
    if workflow.memo.adopted and workflow.status is W.RUNNING:
        return Accept(reason="the state in MAAS is already adopted")
    if not any(adopted.shows(seen, stage) for stage in stages):
        return _no(f"MAAS reports {seen.state}; stage {workflow.stage} accepts only {adopted.GOALS[stages[0]]}")
    return Accept(
        reason=f"MAAS reports {seen.state}; the workflow continues at stage {workflow.stage}",
        to=with_note(continued(node), adopted=True),
    )


def _fresh(node: Node, now: datetime, policy: Policy) -> MaasObservation | Reject:
    seen = node.maas
    if seen is None or not seen.fresh(now, policy.observation_ttl):
        return _no("there is no fresh observation of a machine in MAAS")
    if region.is_foreign(seen):
        return _no(f"machine {seen.system_id} is owned by {(seen.owner or '')[:64]!r} in MAAS, not by farrier")
    return seen


def _no(why: str) -> Reject:
    return Reject(reason=f"{_ACTION}: {why}")
