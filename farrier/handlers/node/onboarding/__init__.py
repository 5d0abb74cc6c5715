"""Onboarding: one module for each stage, and how it ends (model §4, 000 §4)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from farrier.handlers.node.moves import Policy, Stage, StageResult
from farrier.handlers.node.onboarding.apply_roce_phase2 import apply_roce_phase2
from farrier.handlers.node.onboarding.classify_deploy_failure import classify_deploy_failure
from farrier.handlers.node.onboarding.commission_node import commission_node
from farrier.handlers.node.onboarding.completion import complete
from farrier.handlers.node.onboarding.configure_storage import configure_storage
from farrier.handlers.node.onboarding.create_or_find_in_maas import create_or_find_in_maas
from farrier.handlers.node.onboarding.deploy_via_maas import deploy_via_maas
from farrier.handlers.node.onboarding.ensure_hardware_sync_configured import ensure_hardware_sync_configured
from farrier.handlers.node.onboarding.ensure_pxe_interface_auto import ensure_pxe_interface_auto
from farrier.handlers.node.onboarding.load_site_config import load_site_config
from farrier.handlers.node.onboarding.recover_for_datasource_retry import recover_for_datasource_retry
from farrier.handlers.node.onboarding.render_cloud_init import render_cloud_init
from farrier.handlers.node.onboarding.resolve_power_credentials import resolve_power_credentials
from farrier.handlers.node.onboarding.wait_for_agent_enrollment import wait_for_agent_enrollment
from farrier.handlers.node.onboarding.wait_for_deployed import wait_for_deployed
from farrier.handlers.node.onboarding.wait_for_hardware_sync_healthy import wait_for_hardware_sync_healthy
from farrier.handlers.node.onboarding.wait_for_ready import wait_for_ready
from farrier.handlers.node.region import elsewhere
from farrier.model.node import Node
from farrier.model.stages import OnboardingStage as O

_RUN: Mapping[O, Stage] = {
    O.LOAD_SITE_CONFIG: load_site_config,
    O.RESOLVE_POWER_CREDENTIALS: resolve_power_credentials,
    O.CREATE_OR_FIND_IN_MAAS: create_or_find_in_maas,
    O.COMMISSION_NODE: commission_node,
    O.WAIT_FOR_READY: wait_for_ready,
    O.CONFIGURE_STORAGE: configure_storage,
    O.APPLY_ROCE_PHASE2: apply_roce_phase2,
    O.ENSURE_PXE_INTERFACE_AUTO: ensure_pxe_interface_auto,
    O.RENDER_CLOUD_INIT: render_cloud_init,
    O.DEPLOY_VIA_MAAS: deploy_via_maas,
    O.WAIT_FOR_DEPLOYED: wait_for_deployed,
    O.CLASSIFY_DEPLOY_FAILURE: classify_deploy_failure,
    O.RECOVER_FOR_DATASOURCE_RETRY: recover_for_datasource_retry,
    O.ENSURE_HARDWARE_SYNC_CONFIGURED: ensure_hardware_sync_configured,
    O.WAIT_FOR_HARDWARE_SYNC_HEALTHY: wait_for_hardware_sync_healthy,
    O.WAIT_FOR_AGENT_ENROLLMENT: wait_for_agent_enrollment,
}

# What an adoption may go through without a site, and what has to say itself that there is none.
_ANYWHERE = frozenset(
    {O.LOAD_SITE_CONFIG, O.RESOLVE_POWER_CREDENTIALS, O.CREATE_OR_FIND_IN_MAAS, O.WAIT_FOR_AGENT_ENROLLMENT}
)


def _at_its_site(run: Stage) -> Stage:
    """The stage, once this process knows the node's site."""

    def at_its_site(node: Node, now: datetime, policy: Policy) -> StageResult:
        site = policy.site_of(node)
        return elsewhere(node) if site is None or site.maas is None else run(node, now, policy)

    return at_its_site


STAGES: Mapping[O, Stage] = {stage: run if stage in _ANYWHERE else _at_its_site(run) for stage, run in _RUN.items()}

__all__ = ["STAGES", "complete"]
