"""Stage `wait_for_agent_enrollment`: waits until the agent of this installation has enrolled and the node is healthy.

This is the last stage of each mode. The stage fails if the machine is no longer deployed. If the agent does not enrol
in time, the stage fails, and its error contains the events of the first boot: MAAS reports a machine as deployed before
cloud-init has finished.
"""

from __future__ import annotations

from datetime import datetime

from farrier.config.sites import Site
from farrier.handlers.node.changes import (
    Done,
    Failed,
    NodeServices,
    Policy,
    ServiceCall,
    Settled,
    StageResult,
    Waiting,
    ended_with_the_workflow,
    is_late,
    unproven_health,
)
from farrier.handlers.node.maas import region
from farrier.handlers.node.onboarding import deployment
from farrier.handlers.node.onboarding.deploy_failure import post_install
from farrier.handlers.node.workflow import proof
from farrier.model.loop.outcome import EndsBy
from farrier.model.maas.reading import Event, MaasError
from farrier.model.machine.health import SSH_SEED_LIMIT, SshSeed
from farrier.model.node import conditions
from farrier.model.node.failures import FailureClass
from farrier.model.node.layers import NodeStatus as N
from farrier.model.node.layers import OnboardingMode
from farrier.model.node.snapshot import Agent, Node, StopRequest
from farrier.model.plural import counted


def wait_for_agent_enrollment(node: Node, now: datetime, config: Policy) -> StageResult:
    """Wait until this installation's agent, if the node has one, has enrolled and the node is healthy."""
    contradiction = _contradicted(node)
    if contradiction is not None:
        return contradiction
    waited = _enrolled(node, now, config)
    site = config.site_of(node)
    if isinstance(waited, Waiting) and site is not None and _deployed_it(node) and is_late(node, now, config):
        return _late(node, site, waited, now)
    return waited


def _contradicted(node: Node) -> Failed | None:
    """Return the failure if the machine is gone or, if this workflow deployed it, no longer deployed; or None."""
    if node.maas_id is None:
        return None
    if _deployed_it(node):
        return deployment.contradicted(node)
    seen = region.latest(node)
    return region.gone(node) if seen is not None and seen.status is None else None


def _enrolled(node: Node, now: datetime, config: Policy) -> Done | Failed | Waiting:
    agent = node.agent
    if not node.agentless:
        if agent is None or _of_an_earlier_installation(node, agent.enrolled_at):
            deploys = node.live.mode is OnboardingMode.DEPLOY  # the installed system starts the agent
            return Waiting(reason="waits for the agent to enrol", ends_by=EndsBy.ITSELF if deploys else EndsBy.PERSON)
        if agent.ssh_seed_failures >= SSH_SEED_LIMIT and _was_heard_in_this_attempt(node, agent):
            return Failed(
                failure=FailureClass.SSH_SEED_FAILED_REPEATEDLY,
                detail=f"the agent reported a failed SSH seed {counted(agent.ssh_seed_failures, 'time')} in a row",
            )
    unproven = unready(node, now, config)
    standing = held(node)
    if unproven is None and standing is not None:
        return Waiting(reason=f"the node is healthy, but does not enter service: {standing}", timed=False)
    if unproven is None:
        return Done(
            reason="the node is healthy" if node.agentless else "the agent has enrolled, and the node is healthy"
        )
    return Waiting(reason=f"the agent has enrolled, but the node is not healthy yet: {unproven}" if agent else unproven)


def unready(node: Node, now: datetime, config: Policy) -> str | None:
    """Return why an onboarding may not end yet, or None. The node must be healthy, and its SSH seed must not have
    failed: operators could not log in to the node. A node that returns from `retired` needs the cleaning that its site
    requires."""
    if node.status is N.RETIRED and (why := proof.not_to_return(node, config)) is not None:
        return why
    unproven = unproven_health(node, now, config)
    if unproven is not None:
        return unproven
    seeded = node.agentless or node.agent is None or node.agent.health.ssh_seed is not SshSeed.FAILED
    return None if seeded else "the agent reports a failed SSH seed"


def held(node: Node) -> str | None:
    """Return what keeps the node from entering service, or None. A reinstalled node enters `offline` anyway."""
    if not node.conditions or node.status is N.RETIRED:
        return None
    return conditions.in_words(ended_with_the_workflow(node).conditions) or None


def _was_heard_in_this_attempt(node: Node, agent: Agent) -> bool:
    """Return whether a heartbeat came since this attempt began: an older one does not show a repair."""
    return agent.last_heartbeat_at is not None and agent.last_heartbeat_at >= node.live.status_entered_at


def _deployed_it(node: Node) -> bool:
    """Return whether this workflow installed the node."""
    return node.live.mode is OnboardingMode.DEPLOY and node.live.memo.deploys > 0


def _of_an_earlier_installation(node: Node, enrolled_at: datetime) -> bool:
    """Return whether the agent belongs to an earlier installation. If this workflow requested an installation, the
    agent has to enrol after the request. Otherwise, the agent of a retired node has to enrol after the mode of the
    onboarding was set."""
    asked_at = node.live.memo.asked_at if _deployed_it(node) else None
    if asked_at is not None:
        return enrolled_at < asked_at
    begun = node.live.mode_given_at
    return node.status is N.RETIRED and begun is not None and enrolled_at < begun


def _cannot_enrol(node: Node, site: Site, now: datetime) -> bool:
    """Return whether the token with which the agent has to enrol has expired."""
    if node.agentless or (node.agent is not None and not _of_an_earlier_installation(node, node.agent.enrolled_at)):
        return False
    known = node.live.memo
    issued = known.token_at if known.token is not None else None
    return issued is not None and now > issued + site.deploy.bootstrap_ttl


def _late(node: Node, site: Site, waited: Waiting, now: datetime) -> StageResult:
    """Fail after the deadline. The error contains the machine's events in MAAS, if the region has any. If the token has
    expired, the workflow waits for an operator, because another attempt would be useless."""
    dead = _cannot_enrol(node, site, now)

    async def act(services: NodeServices) -> Settled:
        events: tuple[Event, ...] = ()
        try:
            async with services.maas.slot(site.name, node.id) as client:
                events = await client.events(system_id=node.maas_id, limit=deployment.MOST_EVENTS)
        except MaasError:
            pass  # the stage fails even without the events
        said = post_install(events, comment=deployment.comment(node, node.live.memo.deploys))
        detail = waited.reason if said is None else f"{waited.reason}; events in MAAS since its first boot: {said}"
        if dead:
            detail += "; the token in the user data has expired, and only another deployment has a new token"
        return Failed(failure=FailureClass.TIMEOUT, detail=detail, stop=StopRequest.FAILED if dead else None)

    return ServiceCall(name="first_boot", act=act, reads_only=True)
