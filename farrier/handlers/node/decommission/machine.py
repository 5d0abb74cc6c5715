"""What the stages share that release a node's machine in MAAS.

Used by the stages next to this module. A change is asked for once in an attempt: `asking` notes it in the commit that
follows, and until the observer has read the machine after that, nothing is asked again. A request whose answer was lost
is not noted, so the machine is looked at, and what it shows decides.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from farrier.handlers.node import region
from farrier.handlers.node.decommission.own import own
from farrier.handlers.node.moves import (
    Done,
    Failed,
    Policy,
    Settled,
    StageResult,
    Step,
    Waiting,
    attempt_began_at,
    with_note,
)
from farrier.handlers.node.region import Send
from farrier.model.failures import FailureClass
from farrier.model.maas import Machine, StatusNumber
from farrier.model.maas_changes import Change, Unlock
from farrier.model.node import Node
from farrier.protocols import MaasClient

S = StatusNumber

ON_ITS_WAY_OUT = frozenset({S.RELEASING, S.DISK_ERASING})
_NEVER_INSTALLED = frozenset({S.NEW, S.READY, S.FAILED_COMMISSIONING})


def left_alone(node: Node) -> Done | None:
    """Done, for a node that is not in MAAS and for a deletion, which touches nothing there; else None."""
    why = own(node).options.untouched or ("the node is not in MAAS" if node.maas_id is None else None)
    return Done(reason=f"MAAS: {why}", skipped=why) if why is not None else None


def with_machine(
    node: Node, policy: Policy, decide: Callable[[Machine], Settled | Send], *, gone: Settled, name: str
) -> StageResult:
    """`region.with_machine`, with a result of its own for a machine that is gone. `decide` is pure."""

    async def decided(machine: Machine, _client: MaasClient) -> Settled | Send:
        return decide(machine)

    return region.with_machine(node, policy, decided, name=name, absent=gone)


def asking(node: Node, now: datetime, change: Change, what: str) -> Send:
    """Request the change, and record the request."""
    then = Step(to=with_note(node, asked=what, asked_at=now), reason=f"requested from MAAS: {what}")
    return Send(change=change, reason=what, then=then)


def unlock(node: Node) -> Failed | Send:
    """A lock in MAAS was set by an operator there; only force overrides it."""
    if own(node).options.force:
        return Send(change=Unlock(comment=region.comment(node, "unlock")), reason="unlock it")
    return Failed(
        failure=FailureClass.UPSTREAM_REFUSED,
        detail=f"machine {node.maas_id} is locked in MAAS, so farrier does not change it; unlock it there, then "
        "retry_stage, or cancel and decommission the node with force",
    )


def was_asked(node: Node, what: str) -> bool:
    """Whether this attempt of the stage has already requested the change."""
    upstream = own(node).upstream
    return upstream.asked == what and upstream.asked_at is not None and upstream.asked_at >= attempt_began_at(own(node))


def unseen(node: Node, *whats: str) -> Waiting | None:
    """What is waited for before the machine is looked at anew; None when it is time to look."""
    asked_at = own(node).upstream.asked_at
    seen = region.latest(node)
    asked = asked_at if any(was_asked(node, what) for what in whats) else None
    if asked is not None and (seen is None or not seen.tells_of(asked)):
        return Waiting(reason="waits for a read of MAAS")
    if seen is not None and seen.status in ON_ITS_WAY_OUT:
        return going(seen.status, seen.status_name)
    return None


def going(status: int, name: str | None) -> Waiting:
    return Waiting(reason=f"waits for MAAS to release the machine: {name or status}")


def is_unused(machine: Machine) -> bool:
    """Nothing is installed or running there by MAAS's word, so that it may be switched off and forgotten."""
    if machine.status in _NEVER_INSTALLED:
        return True
    return machine.status in (S.FAILED_TESTING, S.BROKEN, S.MISSING, S.RETIRED) and not machine.osystem


def in_use(machine: Machine, instead: str) -> Failed:
    """The machine is not what a released one is."""
    shown = machine.status_name or str(machine.status)
    return Failed(
        failure=FailureClass.STATE_DISAGREEMENT,
        detail=f"machine {machine.system_id} is {shown!r} in MAAS; {instead}",
    )
