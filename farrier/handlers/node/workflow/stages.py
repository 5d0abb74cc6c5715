"""The stages of both workflows, and the functions that begin, advance and end a workflow.

The rules and responses that run a workflow use this module. No stage imports another stage.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import partial, wraps
from typing import assert_never

from msgspec.structs import replace

from farrier.handlers.node.changes import (
    Done,
    Policy,
    Stage,
    StageResult,
    Waiting,
    ended_with_the_workflow,
    own,
    with_fields,
    with_workflow,
)
from farrier.handlers.node.decommission.cleanup_secrets import cleanup_secrets
from farrier.handlers.node.decommission.cleanup_storage import cleanup_storage
from farrier.handlers.node.decommission.disable_node import disable_node
from farrier.handlers.node.decommission.drain_node import drain_node
from farrier.handlers.node.decommission.load_site_config import load_site_config as load_site_to_give_back
from farrier.handlers.node.decommission.power_off_maas_node import power_off_maas_node
from farrier.handlers.node.decommission.release_maas_node import release_maas_node
from farrier.handlers.node.decommission.remove_gpuaas_node_record import remove_gpuaas_node_record
from farrier.handlers.node.decommission.remove_maas_record import remove_maas_record
from farrier.handlers.node.decommission.retire_gpuaas_node import retire_gpuaas_node
from farrier.handlers.node.decommission.scrub_gpu import scrub_gpu
from farrier.handlers.node.decommission.validate_clean_node import validate_clean_node
from farrier.handlers.node.maas.region import elsewhere
from farrier.handlers.node.onboarding.apply_roce_phase2 import apply_roce_phase2
from farrier.handlers.node.onboarding.classify_deploy_failure import classify_deploy_failure
from farrier.handlers.node.onboarding.commission_node import commission_node
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
from farrier.handlers.node.workflow import cleaning_conditions, onboarding_adopt, proof
from farrier.handlers.node.workflow.tasks import work
from farrier.model.machine.bmc import PowerState
from farrier.model.node.layers import DecommissionMode, OnboardingMode
from farrier.model.node.layers import NodeStatus as N
from farrier.model.node.layers import WorkflowStatus as W
from farrier.model.node.snapshot import Bmc, Decommission, Memo, Node, Onboarding, Skipped, TaskType, Workflow
from farrier.model.node.stages import DecommissionStage as D
from farrier.model.node.stages import OnboardingStage as O
from farrier.model.node.stages import first_stage, next_stage

_ONBOARDING: Mapping[O, Stage] = {
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

# The stages that an adoption may run without a configured site, and the stages that report a missing site themselves.
_ANYWHERE = frozenset(
    {O.LOAD_SITE_CONFIG, O.RESOLVE_POWER_CREDENTIALS, O.CREATE_OR_FIND_IN_MAAS, O.WAIT_FOR_AGENT_ENROLLMENT}
)


def _at_its_site(run: Stage) -> Stage:
    """Return the stage, or a wait if this process has no settings for the node's site."""

    @wraps(run)
    def at_its_site(node: Node, now: datetime, policy: Policy) -> StageResult:
        return elsewhere(node) if policy.maas_of(node) is None else run(node, now, policy)

    return at_its_site


ONBOARDING: Mapping[O, Stage] = {
    stage: run if stage in _ANYWHERE else _at_its_site(run) for stage, run in _ONBOARDING.items()
}

DECOMMISSION: Mapping[D, Stage] = {
    D.DISABLE_NODE: disable_node,
    D.FORCE_RELEASE_ALLOCATIONS: partial(work, type_=TaskType.RELEASE_ALLOCATIONS),
    D.DRAIN_NODE: drain_node,
    D.CLEANUP_STORAGE: cleanup_storage,
    D.SCRUB_GPU: scrub_gpu,
    D.VALIDATE_CLEAN_NODE: validate_clean_node,
    D.LOAD_SITE_CONFIG: load_site_to_give_back,
    D.RELEASE_MAAS_NODE: release_maas_node,
    D.POWER_OFF_MAAS_NODE: power_off_maas_node,
    D.RETIRE_GPUAAS_NODE: retire_gpuaas_node,
    D.REMOVE_GPUAAS_NODE_RECORD: remove_gpuaas_node_record,
    D.CLEANUP_SECRETS: cleanup_secrets,
    D.REMOVE_MAAS_RECORD: remove_maas_record,
}


def run_stage(node: Node, now: datetime, config: Policy) -> StageResult:
    """Return the result of the current stage for this snapshot."""
    workflow = node.live
    match workflow:
        case Onboarding():
            run = ONBOARDING.get(workflow.stage) if workflow.stage is not None else None
        case Decommission():
            run = DECOMMISSION.get(workflow.stage) if workflow.stage is not None else None
        case _ as never:
            assert_never(never)
    if run is None:
        return Waiting(reason=f"stage {workflow.stage} belongs to a newer release of farrier", timed=False)
    return run(node, now, config)


def started(node: Node) -> Node:
    """Return the node with its workflow at the first stage."""
    workflow = node.live
    assert workflow.mode is not None, "a workflow begins only after its mode is set"
    return with_workflow(_at_first_attempt(node), stage=first_stage(workflow.mode, skip=workflow.options.leave_out))


def continued(node: Node) -> Node:
    """Return the node after an operator continued its workflow at the same stage, with the counters reset."""
    return with_workflow(_at_first_attempt(node), memo=counted_anew(node.live))


def _at_first_attempt(node: Node) -> Node:
    return with_workflow(
        node,
        status=W.RUNNING,
        attempt=1,
        next_attempt_at=None,
        failure_class=None,
        failure_detail=None,
        stop_requested=None,
    )


def counted_anew(workflow: Workflow) -> Memo:
    """Return the workflow's record of its work in MAAS, after a reset of the counters that have a limit."""
    return replace(workflow.memo, datasource_retries=0, failed_deploys=0, commissions=0, interruptions=0)


def advanced(node: Node, done: Done, policy: Policy) -> Node:
    """Return the node after its stage is done: at the next stage, or with its workflow ended."""
    base = node if done.to is None else done.to
    workflow = base.workflow
    assert workflow is not None and workflow.mode is not None, "a running workflow has a mode"
    stage = workflow.stage
    skipped = tuple(each for each in workflow.skipped if each.stage != stage)
    if done.skipped is not None and stage is not None:
        skipped = (*skipped, Skipped(stage, done.skipped))
    options = workflow.options
    following = (
        next_stage(workflow.mode, stage, skip=options.leave_out, cleaned_by=options.cleaned_by)
        if stage is not None
        else None
    )
    base = with_workflow(
        base,
        skipped=skipped,
        attempt=1,
        failure_class=None,
        failure_detail=None,
        memo=replace(workflow.memo, interruptions=0),
    )
    if following is None:
        return onboarded(base) if isinstance(workflow, Onboarding) else _decommissioned(base, policy)
    return with_workflow(base, stage=following)


def onboarded(node: Node, *, ending: W | None = None) -> Node:
    """Return the node after its onboarding. The node becomes active; after a reimage, it becomes offline, and its
    health decides the next status. An adoption installs nothing and finds the target state, so it ends as
    reconciled."""
    ending = ending or (W.RECONCILED if onboarding_adopt.adopts(node) else W.COMPLETED)
    done = with_workflow(node, status=ending, failure_class=None, failure_detail=None, next_attempt_at=None)
    ended = with_fields(done, bmc=_not_kept_off(node), ever_onboarded=True)
    if node.live.mode is OnboardingMode.DEPLOY:
        ended = cleaning_conditions.installed(ended)
    ended = ended_with_the_workflow(ended)
    if node.status is N.RETIRED:
        return with_fields(ended, status=N.OFFLINE)
    return with_fields(ended, status=N.ACTIVE, ever_active=True)


def _not_kept_off(node: Node) -> Bmc:
    """Return the BMC without the target power `off`, because farrier would otherwise switch off a node in service."""
    if node.bmc.desired_power is not PowerState.OFF:
        return node.bmc
    return replace(node.bmc, desired_power=None, enforced_at=None, enforce_error=None)


def _decommissioned(node: Node, policy: Policy) -> Node:
    """Return the node after its decommission. A full decommission ends in `deleted`. A reimage leaves the node retired
    until a new installation begins, or permanently with option `retire`. After any other mode, the node is offline if
    it may return to service; otherwise, it stays retired."""
    workflow = own(node)
    ending = W.RECONCILED if workflow.memo.adopted else W.COMPLETED
    ended = with_workflow(node, status=ending, next_attempt_at=None)
    if workflow.mode is DecommissionMode.FULL_DECOMMISSION:
        return with_fields(ended, status=N.DELETED, conditions=())
    if workflow.mode is DecommissionMode.REIMAGE:
        return with_fields(ended, redeploying=not workflow.options.retire)
    is_clean = not cleaning_conditions.is_marked(node) and proof.not_to_return(node, policy) is None
    fit = node.ever_onboarded and is_clean and not node.is_bare
    returns = fit and not workflow.options.retire
    return with_fields(ended, status=N.OFFLINE) if returns else ended
