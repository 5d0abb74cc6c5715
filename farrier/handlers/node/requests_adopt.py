"""Responses to `adopt`, and to `onboard` in mode `adopt`: taking over a machine that runs already (model §3).

Both give the onboarding its mode and let it begin from the top. `adopt` is for a node whose BMC is proven and begins
the fresh probe in its own commit; `onboard` also takes a node whose BMC is yet to be verified.
"""

from __future__ import annotations

from farrier.handlers.node import onboarding_adopt
from farrier.handlers.node.logins import missing_detail
from farrier.handlers.node.moves import with_fields, with_workflow
from farrier.handlers.node.probing import recorded
from farrier.handlers.node.reply import Accept, Reject, Reply, Request
from farrier.handlers.node.stages import start
from farrier.model.management import Management as M
from farrier.model.node import Node, Onboarding
from farrier.model.outcome import Wait
from farrier.model.status import NodeStatus as N
from farrier.model.workflow import OnboardingMode

_PROVEN_ONCE = (M.MANAGEABLE, M.ADOPT_FAILED)


def adopt(request: Request) -> Reply:
    """Look at the machine now. The cap on failed logins beats the request: it is accepted, and waits."""
    node, now = request.node, request.now
    if node.ever_active or node.failed_validation:
        return Reject(reason="adopt: this node has been in service; release or decommission it")
    if not recorded(node).is_known:
        return Reject(
            reason="adopt: nothing is recorded that the machine could be told by; its BMC reported neither serial nor "
            "UUID nor MAC address, so register the node with its MAC addresses"
        )
    to = _with_onboarding(request)
    begun = onboarding_adopt.begin(to, now, cause=f"intent {request.intent.id}")
    if isinstance(begun, Wait):
        return Accept(reason=f"begins later: {begun.reason}", to=to)
    return Accept(reason="adopting", to=begun.to)


def onboard(request: Request) -> Reply:
    """The same, and for a node that is not manageable yet: the onboarding asks for that itself."""
    node = request.node
    if node.status is N.RETIRED:
        return Reject(reason="onboard: mode adopt is for a node that never was in service; this one is retired")
    if node.management in (M.UNMANAGED, M.ERROR):
        return Reject(reason="onboard: mode adopt needs a BMC; give its details with set_bmc, or use mode manual")
    missing = missing_detail(node)
    if missing is not None:
        return Reject(reason=f"onboard: mode adopt needs a BMC: {missing}; give it with set_bmc")
    if node.management in _PROVEN_ONCE:
        return adopt(request)
    return Accept(reason="onboarding (adopt) begins", to=_with_onboarding(request))


def _with_onboarding(request: Request) -> Node:
    """The node with its adoption from the top: begun, given its mode, or resumed."""
    node, now = request.node, request.now
    if isinstance(node.workflow, Onboarding):
        given = with_workflow(node, mode=OnboardingMode.ADOPT, mode_given_at=node.workflow.mode_given_at or now)
        begun = with_fields(node, workflow=given)
        return with_fields(begun, workflow=with_workflow(begun, **start(given)))
    fresh = with_fields(node, workflow=Onboarding(mode=OnboardingMode.ADOPT, mode_given_at=now))
    return with_fields(fresh, status=N.ENROLLING) if node.status is N.BOOTSTRAP_ISSUED else fresh
