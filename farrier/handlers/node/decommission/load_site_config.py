"""Stage `load_site_config`: checks that the node's site has a region, and that farrier may release machines there."""

from __future__ import annotations

from datetime import datetime

from farrier.handlers.node.changes import Done, Failed, Policy, Settled, StageResult, own
from farrier.handlers.node.decommission.machine import goal_shown, left_alone, stages_left
from farrier.handlers.node.maas import region
from farrier.model.node.failures import FailureClass
from farrier.model.node.snapshot import Node
from farrier.protocols import MaasClient


def load_site_config(node: Node, now: datetime, policy: Policy) -> StageResult:
    async def ask(client: MaasClient) -> Settled:
        us = await client.whoami()
        if us.is_superuser:
            return Done(reason=f"site {node.site}: the MAAS region identifies farrier as {us.username[:64]!r}")
        detail = f"site {node.site}: {us.username[:64]!r}, the user of the API key, is not an administrator of MAAS"
        return Failed(failure=FailureClass.INVALID_CONFIG, detail=detail)

    done = goal_shown(node, now, policy, *stages_left(own(node))) or left_alone(node)
    if done is not None:  # no stage needs MAAS
        return done
    if policy.maas_of(node) is None:
        return region.not_configured(node)
    return region.with_region(node, policy, ask, name="load_site_config", reads_only=True)
