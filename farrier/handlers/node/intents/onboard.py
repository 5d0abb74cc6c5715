"""Responses to `onboard` and `adopt`. Both intents set the mode of an onboarding and start it at its first stage.

Intent `adopt` adopts a running machine: it requires a verified BMC, and begins the probe in the same commit. Intent
`onboard` with mode `adopt` also accepts a node whose BMC is not verified yet.
"""

from __future__ import annotations

from datetime import datetime

from farrier.handlers.node.bmc.logins import missing_detail
from farrier.handlers.node.bmc.probing import recorded
from farrier.handlers.node.changes import with_fields, with_workflow
from farrier.handlers.node.intents.alternatives import ends, releases
from farrier.handlers.node.intents.reply import Accept, Reject, Reply, Request
from farrier.handlers.node.workflow import cleaning_conditions, onboarding_adopt, proof
from farrier.handlers.node.workflow.stages import started
from farrier.model.advice.recommended import Recommended
from farrier.model.advice.workflow import ONBOARD
from farrier.model.intents.actions import Action
from farrier.model.intents.params import Onboard
from farrier.model.loop.outcome import Wait
from farrier.model.loop.runs import cause_of_intent
from farrier.model.node.layers import Management as M
from farrier.model.node.layers import NodeStatus as N
from farrier.model.node.layers import OnboardingMode
from farrier.model.node.snapshot import Node, Onboarding

_PROVEN_ONCE = (M.MANAGEABLE, M.ADOPT_FAILED)
_STILL_DEPLOYED = (
    Recommended(Action.REACTIVATE, when="to keep its system"),
    Recommended(Action.DECOMMISSION, {"mode": "reimage"}, when="to install it again"),
)


def onboard(request: Request) -> Reply:
    """Set the mode of the onboarding, or begin an onboarding."""
    node, params = request.node, request.params
    assert isinstance(params, Onboard), "the table of actions declares this type"
    if params.mode is OnboardingMode.DEPLOY and (why := _cannot_deploy(request)) is not None:
        return why
    if node.status is N.QUARANTINED and (node.ever_active or node.failed_validation):
        return _was_in_service(request)
    if node.not_scrubbed and params.mode is not OnboardingMode.DEPLOY:
        return Reject(reason=f"onboard: {cleaning_conditions.REFUSAL}", instead=cleaning_conditions.CLEANINGS)
    if node.status is N.RETIRED and request.in_maas_as(deployed=True):
        return Reject(reason=f"onboard: machine {node.maas_id} is still deployed in MAAS", instead=_STILL_DEPLOYED)
    if node.status is N.RETIRED and (unclean_yet := proof.not_to_return(node, request.config)) is not None:
        return Reject(reason=f"onboard: {unclean_yet}")
    if params.mode is OnboardingMode.ADOPT:
        return _onboard_found(request)
    begins = "begins" if isinstance(node.workflow, Onboarding) else "accepted"
    return Accept(reason=f"onboarding ({params.mode}) {begins}", to=_begun(node, params.mode, request.now))


def _was_in_service(request: Request) -> Reject:
    action, node = request.intent.action, request.node
    others = (*releases(node, request.now), *ends(node))
    return Reject(reason=f"{action}: this {node.status} node was in service", instead=others)


def _cannot_deploy(request: Request) -> Reject | None:
    """Return why MAAS cannot install the machine, if this is already known. The stages check all else."""
    node = request.node
    if request.config.maas_of(node) is None:
        return Reject(
            reason=f"onboard: mode deploy needs MAAS, but site {node.site or '(none)'} has no MAAS configured "
            "(sites.directory)",
            instead=ONBOARD,
        )
    return _without_bmc(node, "deploy")


def _without_bmc(node: Node, mode: str) -> Reject | None:
    """Return the refusal of a mode that needs a BMC, or None if the node has one."""
    missing = missing_detail(node)
    if node.management not in (M.UNMANAGED, M.ERROR) and missing is None:
        return None
    said = f": {missing}" if missing is not None and node.management not in (M.UNMANAGED, M.ERROR) else ""
    manual = Recommended(Action.ONBOARD, {"mode": "manual"}, when="to do without a BMC")
    return Reject(
        reason=f"onboard: mode {mode} needs a BMC{said}",
        instead=(Recommended(Action.SET_BMC, fill=("address", "credential")), manual),
    )


def _onboard_found(request: Request) -> Reply:
    """Begin an adoption like intent `adopt`, also if the BMC is not verified yet; the onboarding verifies it."""
    node = request.node
    if node.status is N.RETIRED:
        return Reject(reason="onboard: mode adopt is only for a node that was never in service; this node is retired")
    if (refused := _without_bmc(node, "adopt")) is not None:
        return refused
    if node.management in _PROVEN_ONCE:
        return adopt(request)
    return Accept(reason="onboarding (adopt) begins", to=_adopted(request))


def adopt(request: Request) -> Reply:
    """Begin the probe of the machine. If the login cap is reached, the intent is accepted, and the probe waits."""
    node, now = request.node, request.now
    if node.ever_active or node.failed_validation:
        return _was_in_service(request)
    if not recorded(node).is_known:
        return Reject(
            reason="adopt: the machine cannot be identified: its BMC reported neither serial nor UUID nor MAC address",
            instead=(Recommended(Action.SET, fill=("macs",)),),
        )
    to = _adopted(request)
    begun = onboarding_adopt.begin(to, now, cause=cause_of_intent(request.intent.id))
    if isinstance(begun, Wait):
        return Accept(reason=f"the probe begins later: {begun.reason}", to=to)
    return Accept(reason="adopting", to=begun.to)


def _adopted(request: Request) -> Node:
    """Return the node with an adoption at its first stage. If a stopped adoption starts again, its clock continues."""
    live = request.node.workflow
    given_at = live.mode_given_at if isinstance(live, Onboarding) else None
    return _begun(request.node, OnboardingMode.ADOPT, given_at or request.now)


def _begun(node: Node, mode: OnboardingMode, given_at: datetime) -> Node:
    """Return the node with its onboarding at the first stage of this mode, or with a new onboarding."""
    if isinstance(node.workflow, Onboarding):
        return started(with_workflow(node, mode=mode, mode_given_at=given_at))
    fresh = with_fields(node, workflow=Onboarding(mode=mode, mode_given_at=given_at), redeploying=False)
    return with_fields(fresh, status=N.ENROLLING) if node.status is N.BOOTSTRAP_ISSUED else fresh
