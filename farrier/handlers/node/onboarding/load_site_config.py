"""Stage `load_site_config`: checks that the node's site is configured, and that farrier may use its region.

This is the first stage of the modes `deploy` and `adopt`. The stage only reads. For an adoption, it sends no request,
because nothing may delay the probe; a later stage searches for the machine.
"""

from __future__ import annotations

from datetime import datetime

from farrier.handlers.node.changes import Done, Failed, Policy, Settled, StageResult, Waiting
from farrier.handlers.node.maas import region
from farrier.handlers.node.workflow.onboarding_adopt import adopts
from farrier.model.node.failures import FailureClass
from farrier.model.node.layers import Management
from farrier.model.node.snapshot import Node
from farrier.protocols import MaasClient


def load_site_config(node: Node, now: datetime, policy: Policy) -> StageResult:
    """Check the site and its region. To deploy, the user of its API key must be an administrator there."""
    where = f"site {node.site}" if node.site is not None else "no site"
    if adopts(node) and node.maas_id is None:
        return Done(reason=f"{where}; the node is not in MAAS")
    if policy.maas_of(node) is None:
        return region.not_configured(node)
    if adopts(node):
        return Done(reason=f"{where} has a MAAS region")
    if node.management is Management.VERIFYING:  # a step of this stage could delay the verification past its deadline
        return Waiting(reason="waits for the verification of the BMC", timed=False)

    async def probe(client: MaasClient) -> Settled:
        user = await client.whoami()
        name = f"{user.username[:64]!r}"
        if user.is_superuser:
            return Done(reason=f"the key of site {node.site} belongs to {name}, an administrator of its region")
        detail = (
            f"the API key of site {node.site} belongs to {name}, who is not an administrator of the site's region; use "
            "the key of an administrator"
        )
        return Failed(failure=FailureClass.UPSTREAM_REFUSED, detail=detail)

    return region.with_region(node, policy, probe, name="load_site_config", reads_only=True)
