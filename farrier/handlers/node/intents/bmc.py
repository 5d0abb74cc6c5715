"""Responses to the intents about a node's BMC and its power."""

from __future__ import annotations

from typing import assert_never

import msgspec

from farrier.handlers.node.bmc import power_switch, probing
from farrier.handlers.node.bmc.logins import counted, missing_detail, target_of, waits_for_others
from farrier.handlers.node.changes import with_fields
from farrier.handlers.node.intents.reply import Accept, KeepPending, Reject, Reply, Request
from farrier.handlers.node.workflow.failure import adoption_cut_short, adoption_stopped
from farrier.handlers.node.workflow.onboarding_adopt import back_to_the_gate, given_up
from farrier.model.advice.recommended import Recommended
from farrier.model.intents.actions import IN_USE, Action
from farrier.model.intents.params import PowerMode, PowerRequest, SetBmc, SetPower
from farrier.model.loop.outcome import Wait
from farrier.model.loop.runs import cause_of_intent
from farrier.model.machine import identity
from farrier.model.machine.bmc import BmcFailure
from farrier.model.node.failures import FailureClass
from farrier.model.node.layers import Management as M
from farrier.model.node.snapshot import Bmc, Node, OtherLogin

_ACTION = Action.SET_POWER
_SET = Action.SET_BMC
_SET_DETAILS = Recommended(_SET, fill=("address", "credential"))
_MANAGE = Recommended(Action.MANAGE)


def set_bmc(request: Request) -> Reply:
    """Change the given BMC details and reset the back-off. If the address changes, the facts about the former BMC are
    removed, but the node keeps the identity of its machine: only `replace` allows another machine. The last error stays
    until a successful verification, except an error about missing details."""
    node, params = request.node, request.params
    assert isinstance(params, SetBmc), "the table of actions declares this type"
    if request.intent.conflict is not None:
        return Reject(reason=f"the BMC {params.address} already belongs to node {request.intent.conflict}")
    had = probing.recorded_by_bmc(node.bmc)
    if params.replace and had.is_known and node.status in IN_USE and not params.force:
        return Reject(
            reason=f"replace: the node is {node.status}, and its machine is {identity.described(had)}",
            instead=(Recommended(_SET, {**request.intent.params, "force": True}, when="to replace it nevertheless"),),
        )
    address = params.address or node.bmc_address
    credential = params.credential or node.bmc_credential
    bmc = node.bmc if address == node.bmc_address else _known_of_any(node.bmc, request.intent.logins)
    bmc = msgspec.structs.replace(_replacing(bmc, params, request.intent.id), failures=0, next_try_at=None, trying=None)
    if missing_detail(node) is not None:
        bmc = msgspec.structs.replace(bmc, last_error=None, failure=None)
    if node.management is M.MANAGEABLE:  # enters `verifying`, and begins at once if the login cap allows it
        asked = msgspec.structs.replace(bmc, asked_at=bmc.asked_at or request.now)
        may = counted(asked, request.now)
        bmc = asked if isinstance(may, Wait) else may
    edited = with_fields(
        node, bmc_address=address, bmc_credential=credential, bmc=bmc, management=_after_edit(node.management)
    )
    if node.management is M.ADOPTING:
        edited = adoption_cut_short(edited, "a newer intent changed the BMC details")
    if address != node.bmc_address:
        edited = back_to_the_gate(edited)
    replaces = f"; another machine may replace {identity.described(had)}" if params.replace and had.is_known else ""
    ends = _no_longer_enforced(node.bmc, bmc)
    return Accept(reason=f"BMC details set{replaces}{ends}{_what_follows(edited)}", to=edited)


def clear_bmc(request: Request) -> Reply:
    """Remove all BMC details. From then on, farrier sends no request to the BMC. Another node may have the machine now,
    but this node does not silently get another one later."""
    node = request.node
    if node.management in (M.UNMANAGED, M.ERROR):
        return Accept(reason="the node has no BMC details")
    gone = with_fields(
        node,
        management=M.ERROR,
        bmc_address=None,
        bmc_credential=None,
        bmc=Bmc(
            last_error="the BMC details were removed", tries=node.bmc.tries, former=probing.recorded_by_bmc(node.bmc)
        ),
    )
    if node.management is M.ADOPTING:
        gone = adoption_stopped(gone, FailureClass.ADOPT_FAILED, "the BMC details were removed")
    ends = _no_longer_enforced(node.bmc, gone.bmc)
    return Accept(reason=f"BMC details removed{ends}", to=back_to_the_gate(gone))


def manage(request: Request) -> Reply:
    """Verify the BMC now. The login cap has precedence: if the cap is reached, the intent is accepted, and the
    verification waits. A failed adoption is cancelled."""
    node, now = request.node, request.now
    missing = missing_detail(node)
    if missing is not None:
        return Reject(reason=f"manage: {missing}", instead=(_SET_DETAILS,))
    bmc = msgspec.structs.replace(node.bmc, asked_at=node.bmc.asked_at or now, next_try_at=None, failures=0)
    asked = with_fields(node, bmc=bmc)
    if node.management is M.ADOPT_FAILED:
        asked = given_up(asked)
    begun = probing.begin_verify(asked, now, reason="manage was requested", cause=cause_of_intent(request.intent.id))
    if isinstance(begun, Wait):
        return Accept(reason=f"the verification begins later: {begun.reason}", to=asked)
    return Accept(reason="verifying", to=begun.to)


def set_power(request: Request) -> Reply:
    """Record the power action to send, in a separate commit. The intent stays pending until `power_switch` commits its
    answer together with the result. The intent may be repeated: if the machine already has the requested power, no
    action is sent."""
    node, now, params = request.node, request.now, request.params
    assert isinstance(params, SetPower), "the table of actions declares this type"
    if power_switch.is_busy(node.bmc):
        return KeepPending(reason="farrier is already switching the power")
    fault = _fault_of_power(params)
    if fault is not None:
        return Reject(reason=f"{_ACTION} {params.power}: {fault}")
    shared = probing.shared(node)
    if shared is not None:
        return Reject(reason=f"{_ACTION} {params.power}: {shared}")
    if node.bmc.sync_failure is BmcFailure.IDENTITY_MISMATCH:
        return Reject(reason=f"{_ACTION} {params.power}: {node.bmc.sync_error}", instead=(_SET_DETAILS, _MANAGE))
    if target_of(node).system_path is None:
        return Reject(
            reason=f"{_ACTION} {params.power}: farrier has never identified the machine behind the BMC",
            instead=(_MANAGE,),
        )
    wanted = power_switch.requested(node, now, request.config, params, intent=request.intent.id)
    begun = power_switch.begin(node.bmc, wanted)
    if isinstance(begun, Wait):
        if waits_for_others(begun):
            return KeepPending(reason=begun.reason)
        if params.enforce:
            later = power_switch.kept(node.bmc, params.power, begun.reason, node.bmc.enforced_at)
            reason = f"set_power {params.power}: not done yet: {begun.reason}; {power_switch.KEEPS_TRYING}"
            return Accept(reason=reason, to=with_fields(node, bmc=later))
        return Reject(reason=f"{_ACTION} {params.power}: {begun.reason}; submit it again in a few minutes")
    if node.bmc.asked_at is not None:
        return KeepPending(reason="farrier verifies the BMC first")
    return KeepPending(reason=f"power {params.power} is about to be sent", to=with_fields(node, bmc=begun))


def _fault_of_power(params: SetPower) -> str | None:
    """Return why these parameters contradict each other, or None."""
    if params.enforce and params.power is PowerRequest.RESET:
        return "a reset happens once, so farrier cannot enforce it; use enforce only with on or off"
    if params.power is PowerRequest.ON and (params.mode is not None or params.force_after is not None):
        return "nothing is switched off; use mode and force_after only with off or reset"
    if params.mode is PowerMode.FORCE and params.force_after is not None:
        return "mode force has no deadline; use force_after only with mode graceful"
    return None


def _known_of_any(bmc: Bmc, others: tuple[OtherLogin, ...] | None) -> Bmc:
    """Return the facts that stay valid at a new address, and the logins that other nodes made at the new address."""
    return Bmc(
        last_error=bmc.last_error,
        failure=bmc.failure,
        tries=bmc.tries,
        others=others or (),
        asked_at=bmc.asked_at,
        serial=bmc.serial,
        uuid=bmc.uuid,
        manufacturer=bmc.manufacturer,
        macs=bmc.macs,
        former=bmc.former,
        replacing=bmc.replacing,
        desired_power=bmc.desired_power,
        enforced_at=bmc.enforced_at,
        enforce_error=bmc.enforce_error,
    )


def _replacing(bmc: Bmc, params: SetBmc, intent: int) -> Bmc:
    """Return the BMC after `replace`. The node gives up its machine at once, so that another node may have it."""
    if params.replace is None:
        return bmc
    if not params.replace:
        return msgspec.structs.replace(bmc, replacing=None)
    had = probing.recorded_by_bmc(bmc)
    return msgspec.structs.replace(
        bmc,
        replacing=intent,
        former=had,
        serial=None,
        uuid=None,
        manufacturer=None,
        macs=(),
        desired_power=None,
        enforced_at=None,
        enforce_error=None,
    )


def _no_longer_enforced(before: Bmc, after: Bmc) -> str:
    ends = before.desired_power is not None and after.desired_power is None
    return f"; farrier no longer enforces power {before.desired_power}" if ends else ""


def _what_follows(edited: Node) -> str:
    """Return what an operator has to do before farrier verifies the BMC."""
    missing = missing_detail(edited)
    if missing is not None:
        return f"; {missing}"
    if edited.management is M.ADOPT_FAILED:
        return "; farrier reads the BMC after the intent adopt or manage"
    if edited.management is M.ENROLL and not edited.auto_manage and edited.bmc.asked_at is None:
        return "; farrier verifies the BMC after the intent manage"
    return ""


def _after_edit(management: M) -> M:
    match management:
        case M.UNMANAGED | M.ERROR | M.ENROLL | M.VERIFYING:
            return M.ENROLL
        case M.MANAGEABLE:
            return M.VERIFYING
        case M.ADOPTING | M.ADOPT_FAILED:
            return M.ADOPT_FAILED
        case _ as never:
            assert_never(never)
