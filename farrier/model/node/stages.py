"""The stages of both workflows, in order, and the path of each mode.

Handlers call `first_stage` and `next_stage`. The argument `skip` contains the stages that do not apply to the node; the
caller records these stages as skipped. The two stages for a failed deployment are not on any path: a workflow enters
them only after its deployment failed (`handlers/node/onboarding/deployment.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import TypeAlias

from farrier.model.node.layers import CleaningBy, DecommissionMode, Mode, OnboardingMode, WorkflowKind


class OnboardingStage(StrEnum):
    LOAD_SITE_CONFIG = "load_site_config"
    RESOLVE_POWER_CREDENTIALS = "resolve_power_credentials"
    CREATE_OR_FIND_IN_MAAS = "create_or_find_in_maas"
    COMMISSION_NODE = "commission_node"
    WAIT_FOR_READY = "wait_for_ready"
    CONFIGURE_STORAGE = "configure_storage"
    APPLY_ROCE_PHASE2 = "apply_roce_phase2"
    ENSURE_PXE_INTERFACE_AUTO = "ensure_pxe_interface_auto"
    RENDER_CLOUD_INIT = "render_cloud_init"
    DEPLOY_VIA_MAAS = "deploy_via_maas"
    WAIT_FOR_DEPLOYED = "wait_for_deployed"
    CLASSIFY_DEPLOY_FAILURE = "classify_deploy_failure"
    RECOVER_FOR_DATASOURCE_RETRY = "recover_for_datasource_retry"
    ENSURE_HARDWARE_SYNC_CONFIGURED = "ensure_hardware_sync_configured"
    WAIT_FOR_HARDWARE_SYNC_HEALTHY = "wait_for_hardware_sync_healthy"
    WAIT_FOR_AGENT_ENROLLMENT = "wait_for_agent_enrollment"


class DecommissionStage(StrEnum):
    DISABLE_NODE = "disable_node"
    FORCE_RELEASE_ALLOCATIONS = "force_release_allocations"
    DRAIN_NODE = "drain_node"
    CLEANUP_STORAGE = "cleanup_storage"
    SCRUB_GPU = "scrub_gpu"
    VALIDATE_CLEAN_NODE = "validate_clean_node"
    LOAD_SITE_CONFIG = "load_site_config"
    RELEASE_MAAS_NODE = "release_maas_node"
    POWER_OFF_MAAS_NODE = "power_off_maas_node"
    RETIRE_GPUAAS_NODE = "retire_gpuaas_node"
    REMOVE_GPUAAS_NODE_RECORD = "remove_gpuaas_node_record"
    CLEANUP_SECRETS = "cleanup_secrets"
    REMOVE_MAAS_RECORD = "remove_maas_record"


Stage: TypeAlias = OnboardingStage | DecommissionStage

STAGES: Mapping[WorkflowKind, type[OnboardingStage | DecommissionStage]] = {
    WorkflowKind.ONBOARDING: OnboardingStage,
    WorkflowKind.DECOMMISSION: DecommissionStage,
}

_O = OnboardingStage
_D = DecommissionStage
_RESET = DecommissionMode.SOFT_RESET
_REIMAGE = DecommissionMode.REIMAGE
_FULL = DecommissionMode.FULL_DECOMMISSION
_STORAGE = DecommissionMode.STORAGE_CLEANUP

DETOUR = frozenset({_O.CLASSIFY_DEPLOY_FAILURE, _O.RECOVER_FOR_DATASOURCE_RETRY})
"""Stages that run only after a failed deployment."""

_DECOMMISSION_MODES: Mapping[DecommissionStage, tuple[DecommissionMode, ...]] = {
    _D.DISABLE_NODE: (_RESET, _REIMAGE, _FULL, _STORAGE),
    _D.FORCE_RELEASE_ALLOCATIONS: (_RESET, _REIMAGE, _FULL),
    _D.DRAIN_NODE: (_RESET, _REIMAGE, _FULL, _STORAGE),
    _D.CLEANUP_STORAGE: (_REIMAGE, _FULL, _STORAGE),
    _D.SCRUB_GPU: (_RESET, _REIMAGE, _FULL),
    _D.VALIDATE_CLEAN_NODE: (_RESET, _REIMAGE, _FULL, _STORAGE),
    _D.LOAD_SITE_CONFIG: (_REIMAGE, _FULL),
    _D.RELEASE_MAAS_NODE: (_REIMAGE, _FULL),
    _D.POWER_OFF_MAAS_NODE: (_FULL,),
    _D.RETIRE_GPUAAS_NODE: (_RESET, _REIMAGE, _FULL, _STORAGE),
    _D.REMOVE_GPUAAS_NODE_RECORD: (_FULL,),
    _D.CLEANUP_SECRETS: (_FULL,),
    _D.REMOVE_MAAS_RECORD: (_FULL, _STORAGE),
}

BY_POLICY: Mapping[Mode, frozenset[Stage]] = {_STORAGE: frozenset({_D.REMOVE_MAAS_RECORD})}
"""Stages of a mode that run only if the site's file requires them, and are skipped otherwise."""

REMOVE_STARTS_AT = _D.REMOVE_GPUAAS_NODE_RECORD
"""The stage at which intent `remove` begins a full decommission. The stages before it are omitted, because the node is
already retired."""

PATHS: Mapping[Mode, tuple[Stage, ...]] = {
    OnboardingMode.DEPLOY: tuple(stage for stage in _O if stage not in DETOUR),
    OnboardingMode.ADOPT: (
        _O.LOAD_SITE_CONFIG,
        _O.RESOLVE_POWER_CREDENTIALS,
        _O.CREATE_OR_FIND_IN_MAAS,
        _O.WAIT_FOR_AGENT_ENROLLMENT,
    ),
    OnboardingMode.MANUAL: (_O.WAIT_FOR_AGENT_ENROLLMENT,),
    **{
        mode: tuple(stage for stage, modes in _DECOMMISSION_MODES.items() if mode in modes) for mode in DecommissionMode
    },
}
"""The stages of each mode, in order, if the agent or a worker cleans the machine."""

CLEANING = (_D.CLEANUP_STORAGE, _D.SCRUB_GPU, _D.VALIDATE_CLEAN_NODE)
"""The stages that clean the machine, or check that it is clean."""


def _released_first(path: tuple[Stage, ...]) -> tuple[Stage, ...]:
    """Return the path with the cleaning after the release, because the region checks only a released machine."""
    before = path[: path.index(_D.CLEANUP_STORAGE)]
    release = (_D.LOAD_SITE_CONFIG, _D.RELEASE_MAAS_NODE)
    return (*before, *release, *CLEANING, *(s for s in path if s not in {*before, *release, *CLEANING}))


BY_REGION: Mapping[Mode, tuple[Stage, ...]] = {mode: _released_first(PATHS[mode]) for mode in (_REIMAGE, _FULL)}
"""The stages of the modes in which the region can clean the machine, in order, if it does."""


def path_of(mode: Mode, cleaned_by: str | None = None) -> tuple[Stage, ...]:
    """Return the stages of a mode, in order."""
    return BY_REGION.get(mode, PATHS[mode]) if cleaned_by == CleaningBy.REGION else PATHS[mode]


WITH_MAAS = frozenset({_D.LOAD_SITE_CONFIG, _D.RELEASE_MAAS_NODE, _D.POWER_OFF_MAAS_NODE, _D.REMOVE_MAAS_RECORD})
"""The stages of a decommission that send requests to MAAS or read its observations, whoever cleans the machine."""


def uses_maas(mode: Mode | None, stage: Stage | None, cleaned_by: str | None = None) -> bool:
    """Return whether a workflow of this mode uses MAAS at the stage. A manual onboarding never uses MAAS."""
    if isinstance(mode, DecommissionMode):
        checks = cleaned_by == CleaningBy.REGION and mode in BY_REGION and stage is _D.CLEANUP_STORAGE
        return checks or stage in WITH_MAAS
    return mode is not None and mode is not OnboardingMode.MANUAL


IN_ITS_OWN_SYSTEM = frozenset({_RESET, _STORAGE})
"""The modes that keep the machine's system, so that only this system can clean the machine."""

OUTSIDE_MAAS = frozenset(mode for mode, path in PATHS.items() if not any(uses_maas(mode, stage) for stage in path))
"""The modes of workflows that do not use MAAS."""


def first_stage(mode: Mode, *, skip: Collection[Stage] = ()) -> Stage | None:
    """Return the first stage of a workflow of this mode; None if every stage is skipped. It does not depend on who
    cleans the machine."""
    return next((stage for stage in PATHS[mode] if stage not in skip), None)


def next_stage(
    mode: Mode, stage: Stage, *, skip: Collection[Stage] = (), cleaned_by: str | None = None
) -> Stage | None:
    """Return the stage after a finished stage, or None after the last stage. The result is never one of the two stages
    that run only after a failed deployment.

    Raises ValueError for a stage that is not on the mode's path, which is a bug in farrier.
    """
    path = path_of(mode, cleaned_by)
    rest = path[path.index(stage) + 1 :]
    return next((later for later in rest if later not in skip), None)
