"""Stage `deploy_via_maas`: requests the deployment, exactly one time.

farrier recognises its own deployment by the comment of the request, so a lost response does no harm. The stage renders
the user data again with the derived token; if another token was issued, the stage that issues tokens runs again.
"""

from __future__ import annotations

from datetime import datetime

from farrier.config import templates
from farrier.config.sites import Site
from farrier.errors import ConfigError, CredentialError
from farrier.handlers.node.changes import (
    Done,
    Failed,
    NodeServices,
    Policy,
    ServiceCall,
    Settled,
    StageResult,
    StageStep,
    Waiting,
    at_stage,
    with_note,
)
from farrier.handlers.node.maas import cloud_init, region
from farrier.handlers.node.maas.region import Send
from farrier.handlers.node.onboarding import deployment
from farrier.model.maas.changes import Deploy
from farrier.model.maas.reading import BEING_RELEASED, Event, Machine
from farrier.model.maas.reading import StatusNumber as S
from farrier.model.node.failures import FailureClass
from farrier.model.node.snapshot import Node
from farrier.model.node.stages import OnboardingStage
from farrier.protocols import MaasClient

_DEPLOYABLE = (S.READY, S.ALLOCATED)
_ASKED_FOR = (S.DEPLOYING, S.DEPLOYED)


def deploy_via_maas(node: Node, now: datetime, policy: Policy) -> StageResult:
    """Request the deployment. The stage is done when MAAS has accepted it, maybe from an earlier run."""

    async def act(services: NodeServices) -> Settled:
        async def decide(machine: Machine, client: MaasClient) -> Settled | Send:
            if machine.status in (*_ASKED_FOR, S.FAILED_DEPLOYMENT):
                return _found(node, machine, await deployment.last_start(client, machine.system_id))
            if machine.status in BEING_RELEASED:
                return Waiting(reason=f"waits until MAAS finishes its current work: {machine.status_name}")
            if machine.status not in _DEPLOYABLE:
                return deployment.disagrees(machine, "from which it cannot be deployed")
            return await _deployment(services, node, now, region.site_of(node, policy))

        asked = region.with_machine(node, policy, decide, name="deploy")
        return await asked.act(services) if isinstance(asked, ServiceCall) else asked

    return ServiceCall(name="deploy", act=act, reads_only=False)


def _found(node: Node, machine: Machine, newest: Event | None) -> Settled:
    """Handle a machine that has a deployment, which is this workflow's if its request has the workflow's comment."""
    number, disowned = node.live.memo.deploys, node.live.memo.disowned
    lost = newest is not None and newest.carries(deployment.comment(node, number + 1))
    known = number > disowned and newest is not None and newest.carries(deployment.comment(node, number))
    if not lost and not known:
        return deployment.disagrees(machine, "which this onboarding did not request")
    if machine.status == S.FAILED_DEPLOYMENT:
        if lost:
            failed = deployment.to_classification(_asked(node, _earliest(node, newest)))
            return StageStep(to=failed, reason="the deployment was already requested and failed")
        return StageStep(
            to=at_stage(deployment.with_reset_counters(node), OnboardingStage.RECOVER_FOR_DATASOURCE_RETRY),
            reason="the last deployment failed; its failure is classified",
        )
    if lost:
        return Done(reason="the deployment was already requested", to=_asked(node, _earliest(node, newest)))
    return Done(reason="the deployment was already requested")


async def _deployment(services: NodeServices, node: Node, now: datetime, site: Site) -> Settled | Send:
    known = node.live.memo
    number = known.deploys + 1
    token = ""
    if _needs_token(site, node):
        try:
            token = await cloud_init.token(services, site, node, number)
        except CredentialError as error:
            return cloud_init.underivable(error)
        if cloud_init.digest(token) != known.token:
            return _rendered(node, "the bootstrap token of this deployment is not issued yet")
        if known.token_at is not None and now - known.token_at > site.deploy.bootstrap_ttl / 2:
            # Issuing the token again restarts its time.
            return _rendered(node, "the bootstrap token is too old for a deployment")
    try:
        user_data = cloud_init.render(site, node, token=token)
    except ConfigError as error:
        return Failed(failure=FailureClass.INVALID_CONFIG, detail=str(error))
    change = Deploy(
        user_data=user_data,
        comment=deployment.comment(node, number),
        distro_series=site.deploy.distro_series,
        hwe_kernel=site.deploy.hwe_kernel,
        enable_hw_sync=site.deploy.hardware_sync,
    )
    then = Done(reason="MAAS accepted the deployment", to=_asked(node, now))
    return Send(change=change, reason="deploy", then=then)


def _needs_token(site: Site, node: Node) -> bool:
    template = site.cloud_init.template
    return bool(template) and not node.agentless and templates.names_token(template)


def _rendered(node: Node, reason: str) -> StageStep:
    return StageStep(to=at_stage(node, OnboardingStage.RENDER_CLOUD_INIT), reason=reason)


def _asked(node: Node, at: datetime) -> Node:
    """Return the node after another deployment was requested, without the facts about the previous deployment."""
    number = node.live.memo.deploys + 1
    return with_note(node, deploys=number, asked_at=at, asked=None, deployed_at=None, synced_at=None)


def _earliest(node: Node, start: Event | None) -> datetime:
    """Return the earliest time of a request that only MAAS recorded: an agent that enrolled since is the new one."""
    entered = node.live.stage_entered_at
    return entered if start is None or start.at is None else min(entered, start.at)
