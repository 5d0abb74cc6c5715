"""Stage `render_cloud_init`: checks that the user data can be rendered, and issues its bootstrap token.

The user data itself is not stored: `deploy_via_maas` renders it again. The stage sends nothing to MAAS.
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
    Waiting,
    with_note,
)
from farrier.handlers.node.maas import cloud_init, region
from farrier.model.maas.reading import MaasStatus
from farrier.model.node.failures import FailureClass
from farrier.model.node.snapshot import Node
from farrier.model.node.writes import IssueBootstrap


def render_cloud_init(node: Node, now: datetime, policy: Policy) -> StageResult:
    """Check the user data. The stage is done when they are known to be valid, or if the deployment runs."""
    site = region.site_of(node, policy)
    if node.live.memo.has_deployed:
        seen = region.latest(node)
        if seen is None:
            return Waiting(reason="waits until farrier has read the machine in MAAS")
        if seen.state in (MaasStatus.DEPLOYING, MaasStatus.DEPLOYED) and region.is_undecided(seen):
            return region.undecided(seen)
        if seen.ours and seen.state in (MaasStatus.DEPLOYING, MaasStatus.DEPLOYED):
            return Done(
                reason="the machine has its user data", skipped="this workflow has already deployed the machine"
            )
    if not site.cloud_init.template:
        return Done(
            reason="the site sends no user data",
            to=with_note(node, token=None),
            skipped=f"site {site.name} has no template",
        )
    if node.agentless:
        return _without_token(node, site)

    async def act(services: NodeServices) -> Settled:
        return await _with_token(services, node, site, now)

    return ServiceCall(name="render", act=act, reads_only=True)


def _without_token(node: Node, site: Site) -> Settled:
    try:
        cloud_init.render(site, node, token="")
    except ConfigError as error:
        return Failed(failure=FailureClass.INVALID_CONFIG, detail=str(error))
    return Done(
        reason="the user data can be rendered; an agentless node needs no token", to=with_note(node, token=None)
    )


async def _with_token(services: NodeServices, node: Node, site: Site, now: datetime) -> Settled:
    try:
        token = await cloud_init.token(services, site, node, node.live.memo.deploys + 1)
        cloud_init.render(site, node, token=token)
    except CredentialError as error:
        return cloud_init.underivable(error)
    except ConfigError as error:
        return Failed(failure=FailureClass.INVALID_CONFIG, detail=str(error))
    if not templates.names_token(site.cloud_init.template):
        # Issue no token, because this would only invalidate the token that an operator gave to the agent.
        reason = (
            f"the user data can be rendered; it does not contain {templates.TOKEN}, so the agent must get a token in "
            "another way"
        )
        return Done(reason=reason, to=with_note(node, token=None))
    digest = cloud_init.digest(token)
    return Done(
        reason="the user data can be rendered, and its token is issued",
        to=with_note(node, token=digest, token_at=now),
        writes=(IssueBootstrap(digest, site.deploy.bootstrap_ttl),),
    )
