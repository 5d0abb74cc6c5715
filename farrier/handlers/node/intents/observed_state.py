"""The response to intent `adopt_observed_state`: the workflow continues from the state in MAAS.

The machine is read before the answer, because a stored observation may be older than the change that the operator made
in MAAS. A machine of another user is not adopted. A repeated intent changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TypeAlias, assert_never

from msgspec.structs import replace

from farrier.handlers.node.changes import Done, NodeServices, Policy, own, with_note, with_workflow
from farrier.handlers.node.decommission.machine import stages_left
from farrier.handlers.node.intents.alternatives import releases
from farrier.handlers.node.intents.reply import Accept, FinalReply, ReadFirst, Reject, Reply, Request
from farrier.handlers.node.maas import region
from farrier.handlers.node.onboarding.wait_for_agent_enrollment import held, unready, wait_for_agent_enrollment
from farrier.handlers.node.workflow import onboarding_adopt
from farrier.handlers.node.workflow.stages import continued, onboarded
from farrier.model.advice.recommended import Recommended
from farrier.model.intents.actions import Action
from farrier.model.maas.reading import MaasError, SeenMachine
from farrier.model.maas.reading import MaasFailure as F
from farrier.model.maas.reading import MaasStatus as M
from farrier.model.machine.expected import GOALS, GOES_ON_AT, shows_goal
from farrier.model.machine.observation import MaasObservation
from farrier.model.node.layers import OnboardingMode
from farrier.model.node.layers import WorkflowStatus as W
from farrier.model.node.snapshot import Decommission, Node, Onboarding
from farrier.model.node.stages import DETOUR, PATHS
from farrier.model.node.stages import OnboardingStage as O
from farrier.protocols import MaasClient

_ACTION = Action.ADOPT_OBSERVED_STATE
_PATH = PATHS[OnboardingMode.DEPLOY]
_AFTER_DEPLOYING = frozenset(_PATH[_PATH.index(O.WAIT_FOR_DEPLOYED) :]) | DETOUR


def adopt_observed_state(request: Request) -> Reply:
    """Continue from the observed state, or complete the workflow if this state is the goal."""
    node, now, policy = request.node, request.now, request.config
    workflow = node.live
    match workflow:
        case Onboarding(mode=OnboardingMode.DEPLOY):
            return _after_a_reading(node, now, policy, _of_deployment)
        case Onboarding():
            return _of_health(node, now, policy)
        case Decommission():
            return _of_decommission(node, now, policy)
        case _ as never:
            assert_never(never)


def _of_health(node: Node, now: datetime, policy: Policy) -> Reply:
    if onboarding_adopt.adopts(node) and not onboarding_adopt.is_proven(node):
        return Reject(
            reason=f"{_ACTION}: no read has confirmed the recorded machine yet", instead=(Recommended(Action.ADOPT),)
        )
    unproven = unready(node, now, policy)
    if unproven is not None:
        return _no(f"the target is a healthy node: {unproven}")
    standing = held(node)
    if standing is not None:
        return Reject(reason=f"{_ACTION}: the node is held: {standing}", instead=releases(node, now))
    return Accept(reason="the observed state is the target state", to=onboarded(node, ending=W.RECONCILED))


_Decide: TypeAlias = Callable[[Node, MaasObservation, datetime, Policy], FinalReply]


def _after_a_reading(node: Node, now: datetime, policy: Policy, decide: _Decide) -> ReadFirst | Reject:
    """Read the node's machine, and decide with this reading."""
    maas_id = node.maas_id
    if maas_id is None:
        return _no("the node has no machine in MAAS")
    waits = region.unusable(node, policy)
    if waits is not None:
        return _no(waits.reason)
    site = region.site_of(node, policy)

    async def act(services: NodeServices) -> FinalReply:
        try:
            async with services.maas.slot(site.name, node.id) as client:
                seen = await _read(client, maas_id, now)
        except MaasError as error:
            return _no(f"the machine cannot be read: {error.operation}: {error.failure}: {error.detail}")
        if region.is_foreign(seen):
            return _no(f"machine {seen.system_id} is owned by {(seen.owner or '')[:64]!r} in MAAS, not by farrier")
        reply = decide(replace(node, maas=seen), seen, now, policy)
        if isinstance(reply, Reject) or reply.to is None:
            return reply
        return replace(reply, to=replace(reply.to, maas=node.maas))  # only the region's handler writes observations

    return ReadFirst(name=_ACTION, act=act)


async def _read(client: MaasClient, system_id: str, now: datetime) -> MaasObservation:
    """Read the machine as an observation. A machine that does not exist is observed as absent."""
    try:
        machine = await client.machine(system_id)
    except MaasError as error:
        if error.failure is not F.ABSENT:
            raise
        return MaasObservation(system_id=system_id, state=M.ABSENT, since=now, read_at=now, fresh_at=now)
    return MaasObservation(
        **{name: getattr(machine, name) for name in SeenMachine.__struct_fields__},
        system_id=system_id,
        state=machine.state,
        since=now,
        read_at=now,
        fresh_at=now,
        ours=bool(machine.owner) and await client.holds(machine),
    )


def _of_deployment(node: Node, seen: MaasObservation, now: datetime, policy: Policy) -> FinalReply:
    stage = GOES_ON_AT.get(seen.state)
    if stage is None:
        return _no(f"MAAS reports {seen.state}; farrier can continue only from: {', '.join(GOES_ON_AT)}")
    if seen.state in (M.DEPLOYING, M.DEPLOYED) and not seen.ours:
        return _no(f"machine {seen.system_id} is {seen.state}, but farrier's user does not own it")
    to = _adopted(node, stage, seen.state, now)
    if stage is O.WAIT_FOR_AGENT_ENROLLMENT and isinstance(wait_for_agent_enrollment(to, now, policy), Done):
        return Accept(reason="the observed state is the target state", to=onboarded(to, ending=W.RECONCILED))
    reason = f"MAAS reports {seen.state}; the workflow continues at stage {stage}"
    return Accept(reason=reason, to=None if to == node else to)


def _adopted(node: Node, stage: O, state: M, now: datetime) -> Node:
    """Return the node at `stage`, as if the workflow had requested the state in MAAS, which an undo leaves in place."""
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
    """Continue the decommission. Stages whose goal MAAS already shows have nothing to do."""
    workflow = own(node)
    if not stages_left(workflow):
        return _no(f"the remaining stages of this {workflow.mode} do not depend on the state in MAAS")
    if workflow.memo.adopted and workflow.status is W.RUNNING:
        return Accept(reason="the state in MAAS is already adopted")
    return _after_a_reading(node, now, policy, _of_release)


def _of_release(node: Node, seen: MaasObservation, now: datetime, policy: Policy) -> FinalReply:
    workflow = own(node)
    stages = stages_left(workflow)
    if not any(shows_goal(seen.state, seen.power_state, stage) for stage in stages):
        return _no(f"MAAS reports {seen.state}; stage {workflow.stage} accepts only {GOALS[stages[0]]}")
    return Accept(
        reason=f"MAAS reports {seen.state}; the workflow continues at stage {workflow.stage}",
        to=with_note(continued(node), adopted=True),
    )


def _no(why: str) -> Reject:
    return Reject(reason=f"{_ACTION}: {why}")
