"""The failure classes that are possible at each stage. Each pair of stage and class is one series of the counter of
failures.

`metrics` creates each series at zero, so that an alert rule detects the first failure. A class that is not in `ONLY_AT`
is possible at every stage of its workflow. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping

from farrier.model.node.failures import FailureClass as F
from farrier.model.node.layers import WorkflowKind
from farrier.model.node.stages import STAGES, WITH_MAAS, Stage
from farrier.model.node.stages import DecommissionStage as D
from farrier.model.node.stages import OnboardingStage as O

_NOWHERE: frozenset[Stage] = frozenset()
_IN_MAAS = WITH_MAAS | {D.CLEANUP_STORAGE}

ONLY_AT: Mapping[WorkflowKind, Mapping[F, frozenset[Stage]]] = {
    WorkflowKind.ONBOARDING: {
        F.DISCOVERY_CONFLICT: frozenset({O.CREATE_OR_FIND_IN_MAAS}),
        F.BOSS_DISK_NOT_FOUND: frozenset({O.CONFIGURE_STORAGE}),
        F.PXE_INTERFACE_UNFIXABLE: frozenset({O.ENSURE_PXE_INTERFACE_AUTO}),
        F.DATASOURCE_FAILED_REPEATEDLY: frozenset({O.CLASSIFY_DEPLOY_FAILURE}),
        F.HARDWARE_SYNC_FAILED_REPEATEDLY: frozenset({O.WAIT_FOR_HARDWARE_SYNC_HEALTHY}),
        F.SSH_SEED_FAILED_REPEATEDLY: frozenset({O.WAIT_FOR_AGENT_ENROLLMENT}),
        F.IDENTITY_MISMATCH: frozenset({O.RESOLVE_POWER_CREDENTIALS, O.CREATE_OR_FIND_IN_MAAS}),
        F.ADOPT_FAILED: frozenset({O.LOAD_SITE_CONFIG, O.RESOLVE_POWER_CREDENTIALS}),
        F.NOT_MANAGEABLE: frozenset({O.RESOLVE_POWER_CREDENTIALS}),
        F.NO_CREDENTIALS: frozenset(
            {O.RESOLVE_POWER_CREDENTIALS, O.CREATE_OR_FIND_IN_MAAS, O.RENDER_CLOUD_INIT, O.DEPLOY_VIA_MAAS}
        ),
        F.COMMISSIONING_FAILED: frozenset({O.COMMISSION_NODE, O.WAIT_FOR_READY}),
        F.DEPLOY_FAILED: frozenset({O.CLASSIFY_DEPLOY_FAILURE}),
        F.TASK_FAILED: _NOWHERE,
        F.VALIDATION_FAILED: _NOWHERE,
        F.INTERNAL: _NOWHERE,
    },
    WorkflowKind.DECOMMISSION: {
        F.DISCOVERY_CONFLICT: _NOWHERE,
        F.BOSS_DISK_NOT_FOUND: _NOWHERE,
        F.PXE_INTERFACE_UNFIXABLE: _NOWHERE,
        F.DATASOURCE_FAILED_REPEATEDLY: _NOWHERE,
        F.HARDWARE_SYNC_FAILED_REPEATEDLY: _NOWHERE,
        F.SSH_SEED_FAILED_REPEATEDLY: _NOWHERE,
        F.IDENTITY_MISMATCH: _NOWHERE,
        F.ADOPT_FAILED: _NOWHERE,
        F.NOT_MANAGEABLE: _NOWHERE,
        F.NO_CREDENTIALS: _NOWHERE,
        F.COMMISSIONING_FAILED: _NOWHERE,
        F.DEPLOY_FAILED: _NOWHERE,
        F.UNDO_FAILED: _NOWHERE,
        F.TASK_FAILED: frozenset(
            {
                *(D.DISABLE_NODE, D.FORCE_RELEASE_ALLOCATIONS, D.DRAIN_NODE, D.CLEANUP_STORAGE, D.SCRUB_GPU),
                *(D.POWER_OFF_MAAS_NODE, D.REMOVE_GPUAAS_NODE_RECORD),
            }
        ),
        F.VALIDATION_FAILED: frozenset({D.CLEANUP_STORAGE, D.SCRUB_GPU, D.VALIDATE_CLEAN_NODE}),
        F.INTERNAL: frozenset({D.RETIRE_GPUAAS_NODE}),
        F.STATE_DISAGREEMENT: _IN_MAAS,
        F.MACHINE_DELETED_UPSTREAM: _IN_MAAS,
        F.INVALID_CONFIG: _IN_MAAS,
        F.UPSTREAM_REFUSED: _IN_MAAS,
        F.UPSTREAM_ERROR: _IN_MAAS,
        F.POWER_FAILED: _IN_MAAS | {D.REMOVE_GPUAAS_NODE_RECORD},
    },
}

POSSIBLE: Mapping[WorkflowKind, Mapping[Stage, frozenset[F]]] = {
    kind: {
        stage: frozenset(failure for failure in F if stage in ONLY_AT[kind].get(failure, stages)) for stage in stages
    }
    for kind, stages in STAGES.items()
}
"""The allowed failure classes, by workflow and stage."""
