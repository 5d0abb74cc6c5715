"""Responses to the lifecycle requests: in and out of service, quarantine, removal (model §2, §7).

A workflow is only created here; its stages do the moving, so there is one way into `draining` and one into `removing`.
"""

from __future__ import annotations

from msgspec.structs import replace

from farrier.handlers.node import compensating, region, removal, requests_adopt, unclean
from farrier.handlers.node.logins import missing_detail
from farrier.handlers.node.moves import proven_healthy, with_fields, with_workflow
from farrier.handlers.node.reply import Accept, Reject, Reply, Request, Respond
from farrier.handlers.node.stages import start
from farrier.model import expected
from farrier.model import params as p
from farrier.model.actions import Action
from farrier.model.failures import FailureClass, QuarantineCause
from farrier.model.health import Unhealthy
from farrier.model.maas import MaasStatus
from farrier.model.management import Management
from farrier.model.node import AfterUndo, Decommission, Node, Onboarding, Options, Quarantine, Workflow
from farrier.model.stages import PATHS, REMOVE_STARTS_AT, DecommissionStage
from farrier.model.status import NodeStatus as N
from farrier.model.workflow import DecommissionMode, OnboardingMode
from farrier.model.workflow import WorkflowStatus as W
from farrier.model.writes import RevokeBootstrap

D = DecommissionStage
# Draining alone is a soft reset that only empties the node.
_MORE_THAN_DRAINING = (D.FORCE_RELEASE_ALLOCATIONS, D.SCRUB_GPU, D.VALIDATE_CLEAN_NODE)
_NOT_SCRUBBED = "it is not scrubbed, its cleaning was given up; decommission it with a finished scrub first"
_FULL_PATH = PATHS[DecommissionMode.FULL_DECOMMISSION]
_BEFORE_REMOVAL = tuple(s for s in _FULL_PATH[: _FULL_PATH.index(REMOVE_STARTS_AT)] if isinstance(s, D))


def onboard(request: Request) -> Reply:
    """Gives the onboarding its mode, or begins one."""
    node, params, now = request.node, request.params, request.now
    assert isinstance(params, p.Onboard), "the table names the type"
    if params.mode is OnboardingMode.DEPLOY and (why := _cannot_deploy(request)) is not None:
        return Reject(reason=f"onboard: {why}")
    if node.status is N.QUARANTINED and (node.ever_active or node.failed_validation):
        return Reject(reason="onboard: this quarantined node was in service; release or decommission it")
    if node.not_scrubbed and params.mode is not OnboardingMode.DEPLOY:
        return Reject(reason=f"onboard: {_NOT_SCRUBBED}")
    if node.status is N.RETIRED and _in_maas_as(request, deployed=True):
        return Reject(
            reason=f"onboard: machine {node.maas_id} is still deployed in MAAS; reactivate the node, or decommission "
            "it with mode reimage first"
        )
    if params.mode is OnboardingMode.ADOPT:
        return requests_adopt.onboard(request)
    if isinstance(node.workflow, Onboarding):
        given = with_workflow(node, mode=params.mode, mode_given_at=now)
        begun = with_fields(node, workflow=given)
        return Accept(
            reason=f"onboarding ({params.mode}) begins",
            to=with_fields(begun, workflow=with_workflow(begun, **start(given))),
        )
    fresh = with_fields(node, workflow=Onboarding(mode=params.mode, mode_given_at=now), redeploying=False)
    if node.status is N.BOOTSTRAP_ISSUED:
        fresh = with_fields(fresh, status=N.ENROLLING)
    return Accept(reason=f"onboarding ({params.mode}) accepted", to=fresh)


def _cannot_deploy(request: Request) -> str | None:
    """Why the machine cannot be installed through MAAS, as far as that is known before; the stages look themselves."""
    node = request.node
    if not _has_region(request):
        return (
            f"mode deploy needs MAAS, and site {node.site or '(none)'} has no MAAS configured (sites.directory); "
            "modes adopt and manual do without"
        )
    if node.management in (Management.UNMANAGED, Management.ERROR):
        return "mode deploy needs a BMC; give its details with set_bmc, or use mode manual"
    missing = missing_detail(node)
    if missing is not None:
        return f"mode deploy needs a BMC: {missing}; give it with set_bmc, or use mode manual"
    return None


def quarantine(request: Request) -> Reply:
    """Blocked from scheduling until it is released. An onboarding under way waits for an operator; one that was about
    to begin loses its mode, for otherwise it would lift the quarantine."""
    node = request.node
    assert isinstance(request.params, p.Because), "the table names the type"
    goes_on = isinstance(node.workflow, Onboarding) and not _stands(node.workflow)
    why = Quarantine(QuarantineCause.OPERATOR, request.params.reason)
    to = with_fields(node, status=N.QUARANTINED, quarantine=why)
    if to == node and not goes_on:
        return Accept(reason=f"quarantined for {'another cause' if node.failed_validation else 'that'} already")
    if isinstance(node.workflow, Onboarding):
        to = with_fields(to, workflow=_held(node, request.params.reason))
    return Accept(reason=f"quarantined: {request.params.reason}", to=to)


def _stands(workflow: Workflow) -> bool:
    """Whether the onboarding leads nowhere until somebody asks for it."""
    if workflow.status is W.COMPENSATING:
        return workflow.after_undo is AfterUndo.CANCEL
    return workflow.status is W.FAILED_MANUAL_INTERVENTION or workflow.mode is None


def _held(node: Node, reason: str) -> Workflow:
    assert node.workflow is not None, "only a live workflow is held"
    if node.workflow.status is W.PENDING:
        return with_workflow(node, mode=None, mode_given_at=None)
    return with_workflow(
        node,
        status=W.FAILED_MANUAL_INTERVENTION,
        failure_class=FailureClass.OPERATOR_REQUEST,
        failure_detail=reason,
        next_attempt_at=None,
        after_undo=None,
    )


def release(request: Request) -> Reply:
    """Back into service, if it has ever been and is healthy now. One that was not left clean takes a reason."""
    node, params = request.node, request.params
    assert isinstance(params, p.MaybeBecause), "the table names the type"
    if not node.ever_onboarded:
        return Reject(reason="release: no onboarding of this node has ever ended well; onboard or delete it")
    if node.not_scrubbed:
        return Reject(reason=f"release: {_NOT_SCRUBBED}")
    if node.failed_validation and params.reason is None:
        return Reject(
            reason="release: its cleanup was not validated; give a reason, or decommission it with a cleanup whose "
            "validation succeeds"
        )
    proof = proven_healthy(node, request.now, request.config)
    if isinstance(proof, Unhealthy):
        return Reject(reason=f"release: the node is not healthy: {proof.reason}")
    said = f": {params.reason}" if params.reason else ""
    released = with_fields(unclean.cleared(node), status=N.ACTIVE, ever_active=True)
    return Accept(reason=f"released, healthy{said}", to=released)


def drain(request: Request) -> Reply:
    """Empty and retire."""
    assert isinstance(request.params, p.Drain), "the table names the type"
    options = _options(request, request.params, retire=True, leave_out=_MORE_THAN_DRAINING)
    return _decommission(request, DecommissionMode.SOFT_RESET, options, "drain")


def reactivate(request: Request) -> Reply:
    """Back to `offline`; health decides when it is active."""
    node = request.node
    if node.not_scrubbed:
        return Reject(reason=f"reactivate: {_NOT_SCRUBBED}")
    if not node.ever_onboarded:
        return Reject(reason="reactivate: no onboarding of this node has ever ended well; onboard or remove it")
    if node.is_bare:
        return Reject(reason="reactivate: its agent was removed; onboard it again, or remove the node")
    if (why := _not_to_reactivate(request)) is not None:
        return Reject(reason=f"reactivate: {why}")
    return Accept(reason="reactivated", to=with_fields(node, status=N.OFFLINE, redeploying=False))


def remove(request: Request) -> Reply:
    """Uninstall a retired node and delete it."""
    params = request.params
    assert isinstance(params, p.Remove), "the table names the type"
    if params.remove_maas and (why := _record_stays(request)) is not None:
        return Reject(reason=f"remove: {why}")
    keep = () if params.remove_maas else (D.REMOVE_MAAS_RECORD,)
    options = _options(request, params, retire=True, leave_out=_BEFORE_REMOVAL + keep, remove_maas=params.remove_maas)
    return _decommission(request, DecommissionMode.FULL_DECOMMISSION, options, "remove")


def decommission(request: Request) -> Reply:
    """Drain, clean, and end as the mode says."""
    params = request.params
    assert isinstance(params, p.Decommission), "the table names the type"
    if params.mode is DecommissionMode.REIMAGE and request.node.maas_id is None:
        return Reject(reason="decommission: mode reimage needs a node that is in MAAS; this one has no MAAS id")
    if params.mode is DecommissionMode.REIMAGE and not _has_region(request):
        site = request.node.site or "(none)"
        return Reject(reason=f"decommission: mode reimage needs MAAS, and site {site} has none configured")
    options = _options(request, params, retire=params.retire)
    return _decommission(request, params.mode, options, f"decommission ({params.mode})")


def delete(request: Request) -> Reply:
    """The walk to `deleted` for a node that never was active."""
    node = request.node
    if node.ever_active:
        return Reject(reason="delete: this node has been in service; decommission or remove it")
    marked = with_fields(node, deleting=True)
    if node.status is N.BOOTSTRAP_ISSUED:
        return Accept(reason="being deleted", to=with_fields(marked, status=N.ENROLLING), writes=(RevokeBootstrap(),))
    if node.workflow is None:
        return Accept(reason="being deleted", to=removal.begin(node, request.now).to, writes=(RevokeBootstrap(),))
    if compensating.has_work(node):  # also where it is undone already: whatever was to follow that is now this
        undone = with_fields(marked, workflow=compensating.undoing(node, AfterUndo.CANCEL))
        return Accept(reason="being deleted once it is undone", to=undone, writes=(RevokeBootstrap(),))
    cancelled = with_fields(marked, workflow=with_workflow(node, status=W.CANCELLED, next_attempt_at=None))
    return Accept(reason="being deleted", to=cancelled, writes=(RevokeBootstrap(),))


def _decommission(request: Request, mode: DecommissionMode, options: Options, what: str) -> Reply:
    node, live = request.node, request.node.workflow
    if isinstance(live, Decommission):
        return _raised(node, live, mode, options, what)
    if node.agentless and not options.force:
        return Reject(
            reason=f"{what}: this node is agentless, and only an agent does the tasks that empty and clean a node; ask "
            "with force: true and a reason to give them up, which marks the node not_scrubbed"
        )
    begun = Decommission(mode=mode, mode_given_at=request.now, options=options)
    return Accept(reason=f"{what} accepted", to=with_fields(request.node, workflow=begun, redeploying=False))


def _raised(node: Node, live: Decommission, mode: DecommissionMode, options: Options, what: str) -> Reply:
    """The decommission under way with what is asked for besides: options are raised, never lowered."""
    if (live.mode, live.options.leave_out) != (mode, options.leave_out) and not _raises_the_record(live, options):
        return Reject(
            reason=f"{what}: decommission {live.id} of this node is live (mode {live.mode}); its options are raised by "
            "the request that began it, with the same mode"
        )
    now = live.options
    force = options.force and not now.force
    raised = replace(
        now,
        force=now.force or options.force,
        retire=now.retire or options.retire,
        remove_maas=now.remove_maas or options.remove_maas,
        leave_out=tuple(stage for stage in now.leave_out if stage in options.leave_out),
        reason=options.reason if force else now.reason,
        asked_by=options.asked_by if force else now.asked_by,
    )
    if raised == now:
        return Accept(reason=f"{what} is under way already")
    return Accept(reason=f"{what}: options raised", to=with_fields(node, workflow=with_workflow(node, options=raised)))


def _raises_the_record(live: Decommission, options: Options) -> bool:
    """Whether both are the `remove` of a retired node, and differ in nothing but its record in MAAS."""
    return (
        options.leave_out[: len(_BEFORE_REMOVAL)] == live.options.leave_out[: len(_BEFORE_REMOVAL)] == _BEFORE_REMOVAL
    )


def _record_stays(request: Request) -> str | None:
    """Why the machine cannot be deleted in MAAS, as far as that is known before; the stage looks itself."""
    node = request.node
    if node.maas_id is None:
        return None
    if not _has_region(request):
        return f"remove_maas needs MAAS, and site {node.site or '(none)'} has none configured"
    if _in_maas_as(request, deployed=True):
        return f"machine {node.maas_id} is deployed in MAAS; decommission full_decommission releases it first"
    return None


def _has_region(request: Request) -> bool:
    site = request.config.site_of(request.node)
    return site is not None and site.maas is not None


def _not_to_reactivate(request: Request) -> str | None:
    """Why the machine that a fresh reading shows is not one to go back into service with. One that was put into service
    by hand may be held by anybody."""
    node = request.node
    if _in_maas_as(request, deployed=False):
        assert node.maas is not None, "it was read"
        if node.maas.state is MaasStatus.ABSENT:
            return f"MAAS has no machine {node.maas_id} any more; remove the node, or onboard it again"
        return f"machine {node.maas_id} is no longer deployed in MAAS; onboard it again"
    if _in_maas_as(request, deployed=True) and node.deployed_here and node.maas is not None:
        return expected.disagreement(node.status, node.maas, foreign=region.is_foreign(node.maas))
    return None


def _in_maas_as(request: Request, *, deployed: bool) -> bool:
    """Whether a fresh reading shows the node's machine deployed, or something else; what is stale proves neither."""
    seen = request.node.maas
    if seen is None or not seen.fresh(request.now, request.config.observation_ttl):
        return False
    return (seen.state is MaasStatus.DEPLOYED) is deployed


def _options(
    request: Request,
    params: p.Drain | p.Remove | p.Decommission,
    *,
    retire: bool,
    leave_out: tuple[DecommissionStage, ...] = (),
    remove_maas: bool = False,
) -> Options:
    return Options(
        retire=retire,
        remove_maas=remove_maas,
        force=params.force,
        reason=params.reason,
        asked_by=request.intent.requested_by,
        leave_out=leave_out,
    )


RESPONSES: dict[Action, Respond] = {
    Action.ONBOARD: onboard,
    Action.QUARANTINE: quarantine,
    Action.RELEASE: release,
    Action.DRAIN: drain,
    Action.REACTIVATE: reactivate,
    Action.REMOVE: remove,
    Action.DELETE: delete,
    Action.DECOMMISSION: decommission,
}
