"""Stage `ensure_hardware_sync_configured`: if the site uses hardware sync, makes MAAS expect hardware reports of the
machine.

A deployment installs the reporting service only if its request enables hardware sync. If the setting is enabled after
the deployment, this stage makes MAAS expect reports, but the machine does not send any.
"""

from __future__ import annotations

from datetime import datetime

from farrier.handlers.node.changes import Done, Policy, Settled, StageResult
from farrier.handlers.node.maas import region
from farrier.handlers.node.maas.region import Send
from farrier.handlers.node.onboarding import deployment
from farrier.model.maas.changes import UpdateMachine
from farrier.model.maas.reading import Machine
from farrier.model.maas.reading import StatusNumber as S
from farrier.model.node.snapshot import Node
from farrier.protocols import MaasClient


def ensure_hardware_sync_configured(node: Node, now: datetime, policy: Policy) -> StageResult:
    site = region.site_of(node, policy)
    if not site.deploy.hardware_sync:
        return Done(
            reason="the site does not use hardware sync", skipped=f"site {site.name} has deploy.hardware_sync off"
        )
    return region.with_machine(node, policy, _decided, name="hardware_sync")


async def _decided(machine: Machine, _client: MaasClient) -> Settled | Send:
    if machine.status != S.DEPLOYED:
        return deployment.disagrees(machine, "after it was deployed")
    if machine.enable_hw_sync:
        return Done(reason="hardware sync is configured")
    then = Done(
        reason="hardware sync was enabled in MAAS, but only a new deployment installs the service that sends the data"
    )
    return Send(change=UpdateMachine(enable_hw_sync=True), reason="enable hardware sync", then=then)
