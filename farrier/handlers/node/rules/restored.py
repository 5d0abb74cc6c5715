"""Decides for a node that is held after the restore of a backup: compares it with its BMC and with MAAS, and carries
out the choice of an operator.

The only steps read the BMC. The observer of the region reads MAAS. Every difference is a reason for which the hold is
not lifted without a choice.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import assert_never

from msgspec.structs import replace

from farrier.handlers.node.changes import Decision, Policy, transition, with_fields, with_note, with_workflow
from farrier.handlers.node.intents.reply import Accept, Reject, Request, Respond
from farrier.handlers.node.maas import region
from farrier.handlers.node.rules import management, power
from farrier.handlers.node.workflow import cleaning_conditions, tasks
from farrier.handlers.node.workflow.failure import fallback
from farrier.model.intents import actions
from farrier.model.intents.acceptance import Allowed
from farrier.model.intents.actions import Action
from farrier.model.intents.params import NoParams
from farrier.model.loop.outcome import DoNothing, Wait
from farrier.model.loop.restores import Hold, HoldChoice, held
from farrier.model.machine.bmc import PowerState
from farrier.model.machine.expected import disagreement
from farrier.model.node.layers import Management as M
from farrier.model.node.layers import WorkflowStatus as W
from farrier.model.node.snapshot import Intent, Node
from farrier.model.node.writes import LiftHold, Write

_CAUSE = "restore"
_AT_ONCE = timedelta(0)


def observe(node: Node, now: datetime, config: Policy, hold: Hold, *, adopt: Respond) -> Decision:
    """Carry out the choice of an operator. Otherwise read the BMC if a read is due, or return what differs. `adopt` is
    the response to intent adopt_observed_state."""
    node = replace(node, intents=())
    chosen = None if hold.choice is None else _chosen(node, now, config, hold, adopt)
    if not (chosen is None or isinstance(chosen, Wait)):
        return chosen
    reading = _reading(node, now, config, hold)
    if not (reading is None or isinstance(reading, Wait | DoNothing)):
        return reading
    again = None if reading is None else reading.requeue_after
    if chosen is not None:
        return replace(chosen, requeue_after=again)
    said = "; ".join(_differences(node, config, hold))
    return Wait(reason=held(said), rests=True, requeue_after=again) if said else DoNothing(requeue_after=again)


def _reading(node: Node, now: datetime, config: Policy, hold: Hold) -> Decision | None:
    """Return the next read of the BMC, or how long to wait for it; None if farrier does not read it."""
    if node.paused is not None or node.deleting:
        return None
    if node.management is M.MANAGEABLE:
        return power.observe(node, now, config)
    if node.management is M.VERIFYING:
        return management.verify(node, now, config)
    if node.management is M.ENROLL and hold.power is not None:  # a new secret was tried, and the read failed
        return management.enroll(node, now, config)
    return None


def _differences(node: Node, config: Policy, hold: Hold) -> Iterator[str]:
    """Yield what differs from the outside services, and what farrier would do after the hold."""
    workflow = node.workflow
    if workflow is not None:
        stage = f", stage {workflow.stage}" if workflow.stage is not None else ""
        yield f"{workflow.kind} {workflow.id} was live in the backup ({workflow.status}{stage})"
    if node.deleting:
        yield "the node was being deleted in the backup"
    if node.redeploying:
        yield "a redeployment of the node was due in the backup"
    if node.paused is None and not node.deleting:
        yield from _of_power(node, hold)
    yield from _in_maas(node, config, hold)


def _of_power(node: Node, hold: Hold) -> Iterator[str]:
    bmc = node.bmc
    if node.management is not M.MANAGEABLE:
        if hold.power is not None:
            yield f"the BMC was manageable in the backup, and is {node.management} now"
        return
    if bmc.sync_failure is not None:
        yield f"the power cannot be read ({bmc.sync_failure}): {bmc.sync_error}"
    elif not _is_read(node, hold):
        yield "the power was not read yet"
    elif bmc.desired_power not in (None, bmc.power):
        yield f"power is {bmc.power}, target power is {bmc.desired_power}"
    elif hold.power in (PowerState.ON, PowerState.OFF) and bmc.power != hold.power:
        yield f"power is {bmc.power}; in the backup it was {hold.power}"


def _is_read(node: Node, hold: Hold) -> bool:
    """Return whether the power was read since the restore."""
    return node.bmc.power_at is not None and node.bmc.power_at >= hold.since


def _in_maas(node: Node, config: Policy, hold: Hold) -> Iterator[str]:
    seen = node.maas
    if node.maas_id is None:
        return
    if config.maas_of(node) is None:
        yield f"site {node.site} has no MAAS in this controller's settings"
    elif seen is None or not seen.tells_of(hold.since):
        yield f"machine {node.maas_id} was not read in MAAS yet"
    else:
        foreign = node.deployed_here and region.is_foreign(seen)
        said = disagreement(node.status, seen, foreign=foreign)
        if said is not None:
            yield said


def _chosen(node: Node, now: datetime, config: Policy, hold: Hold, adopt: Respond) -> Decision:
    """Carry out the choice, or return why this is not possible."""
    assert hold.choice is not None, "the caller has checked this"
    match hold.choice:
        case HoldChoice.RESUME:
            return _lifted(node, _resumed(node, now), "the operator chose to continue from the state in the backup")
        case HoldChoice.ADOPT:
            return _adopted(node, now, config, hold, adopt)
        case HoldChoice.END:
            return _ended(node)
        case _ as never:
            assert_never(never)


def _resumed(node: Node, now: datetime) -> Node:
    """Return the node whose workflow continues. As after a pause, the deadlines of the workflow start again."""
    return node if node.workflow is None else with_note(node, unpaused_at=now, resumed=False)


def _adopted(node: Node, now: datetime, config: Policy, hold: Hold, adopt: Respond) -> Decision:
    """Accept the machine's power, and for a workflow do what intent adopt_observed_state does."""
    if node.deleting:
        return Wait(reason=held("a deletion cannot be adopted; choose resume or end"), rests=True)
    if node.management is M.MANAGEABLE and node.paused is None and not _is_read(node, hold):
        return Wait(reason=held("the choice adopt waits for a reading of the power"), rests=True)
    to = node
    if node.bmc.desired_power not in (None, node.bmc.power):
        to = with_fields(to, bmc=replace(node.bmc, desired_power=None))
    to, reason = with_fields(to, redeploying=False), "the operator chose to accept the observed state"
    if node.workflow is not None:
        verdict = actions.check(Action.ADOPT_OBSERVED_STATE, node.status, node.management, node.workflow)
        if not isinstance(verdict, Allowed):
            return Wait(reason=held(f"{verdict.reason}; choose resume or end"), rests=True)
        asked = Intent(id=0, action=Action.ADOPT_OBSERVED_STATE, params={})
        reply = adopt(Request(_resumed(to, now), asked, NoParams(), now, config))
        if isinstance(reply, Reject):
            return Wait(reason=held(f"{reply.reason}; choose resume or end"), rests=True)
        assert isinstance(reply, Accept), "the response to this intent keeps no intent pending"
        to, reason = reply.to or _resumed(to, now), reply.reason
    return _lifted(node, to, reason)


def _ended(node: Node) -> Decision:
    """End the workflow and the deletion, and undo nothing. farrier no longer enforces a power that differs."""
    bmc = node.bmc if node.bmc.desired_power in (None, node.bmc.power) else replace(node.bmc, desired_power=None)
    to = with_fields(node, bmc=bmc, deleting=False, redeploying=False, status=fallback(node))
    reason = "the operator chose to end the work in the backup, and to change nothing outside"
    if node.workflow is None:
        return _lifted(node, to, reason)
    ended = with_workflow(
        cleaning_conditions.given_up(to), status=W.CANCELLED, stop_requested=None, next_attempt_at=None, after_undo=None
    )
    return _lifted(node, ended, reason, *tasks.end_live(node, "the operator ended the workflow after a restore"))


def _lifted(node: Node, to: Node, reason: str, *writes: Write) -> Decision:
    return transition(node, to, reason=reason, cause=_CAUSE, writes=(*writes, LiftHold()))
