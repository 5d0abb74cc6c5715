"""Runs a stage's calls to its site's MAAS region: one reading of the machine, and at most one change. Converts each
failure to a result of the stage.

The decision depends on fresh readings only, so a run repeated after a crash continues the earlier run. Nothing is sent
to a machine that another user owns. A stage that waits for MAAS uses stored observations instead.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import TypeAlias, assert_never

from farrier.config.sites import Site
from farrier.handlers.node.changes import (
    Failed,
    NodeServices,
    Policy,
    ServiceCall,
    Settled,
    StageResult,
    StageStep,
    Waiting,
    attempt_began_at,
    with_note,
)
from farrier.model.loop.outcome import EndsBy, Made
from farrier.model.maas.changes import Change
from farrier.model.maas.reading import RESCUE, MaasError, Machine
from farrier.model.maas.reading import MaasFailure as F
from farrier.model.machine.expected import BY_RESCUE, LONGEST_OWNER, not_known
from farrier.model.machine.observation import MaasObservation
from farrier.model.node.failures import FailureClass
from farrier.model.node.snapshot import Node
from farrier.protocols import MaasClient

AT_ONCE = timedelta(0)
# The end of the description of a machine that a workflow created: `comment(node, CREATE)`.
CREATE = "create"
# A failure of the whole region is not the node's fault: the stage waits, and the region has an alert of its own.
REGION_AGAIN = timedelta(seconds=15)
CONFLICT_AGAIN = timedelta(seconds=5)


class Send(Made, frozen=True, kw_only=True):
    """A change of the machine, and the result of the stage after the change. By default, the stage runs again."""

    change: Change
    reason: str
    then: Settled | None = None


Decide: TypeAlias = Callable[[Machine, MaasClient], Awaitable[Settled | Send]]
Ask: TypeAlias = Callable[[MaasClient], Awaitable[Settled]]


def with_machine(
    node: Node, policy: Policy, decide: Decide, *, name: str, reads_only: bool = False, absent: Settled | None = None
) -> StageResult:
    """Read the node's machine, call `decide`, and send at most one change. The node must have a MAAS ID. The stage
    fails if another user owns the machine, or if the machine no longer exists; in the latter case, `absent` replaces
    the failure."""

    async def decide_and_send(client: MaasClient) -> Settled:
        assert node.maas_id is not None, "only called once the node has a machine"
        try:
            machine = await client.machine(node.maas_id)
            if machine.owner and not await client.holds(machine):
                return _of_another(node, machine)
            if (unknown := undefined(machine)) is not None:
                return unknown
            decided = await decide(machine, client)
            if not isinstance(decided, Send):
                return decided
            await client.do(machine, decided.change)
        except MaasError as error:
            if error.failure is not F.ABSENT:
                raise
            return gone(node) if absent is None else absent
        again = Waiting(reason=f"requested from MAAS: {decided.reason}", requeue_after=AT_ONCE, source=decided.source)
        return decided.then or again

    return with_region(node, policy, decide_and_send, name=name, reads_only=reads_only)


def with_region(node: Node, policy: Policy, ask: Ask, *, name: str, reads_only: bool = False) -> StageResult:
    """Run `ask` with a slot of the site's region. Errors of `ask` become results of the stage."""
    waits = unusable(node, policy)
    if waits is not None:
        return waits
    site = site_of(node, policy)

    async def act(services: NodeServices) -> Settled:
        try:
            async with services.maas.slot(site.name, node.id) as client:
                return await ask(client)
        except MaasError as error:
            return of_error(error)

    return ServiceCall(name=name, act=act, reads_only=reads_only)


def unusable(node: Node, policy: Policy) -> Waiting | None:
    """Wait if this controller's settings have no MAAS for the node's site, or if another region may be at the URL."""
    if policy.maas_of(node) is None:
        return elsewhere(node)
    doubt = node.region.doubt if node.region is not None else None
    if doubt is None:
        return None
    # The URL may lead to another region, or the key may belong to another user. Responses may then be about other
    # machines.
    return Waiting(reason=f"MAAS: {doubt}", requeue_after=REGION_AGAIN, timed=False)


def _of_another(node: Node, machine: Machine) -> Failed:
    """Return the failure for a machine that another user owns. Raises `MaasError` if the user who owns the machine is
    farrier's earlier user, because the API key now belongs to another user."""
    if machine.owner and node.maas is not None and node.maas.ours and node.maas.owner == machine.owner:
        detail = f"the API key no longer belongs to {machine.owner[:64]!r}, the owner of this node's machine"
        raise MaasError(F.AUTH, detail, operation="whoami")
    return foreign(node, machine)


def not_configured(node: Node) -> Failed:
    """Return the failure for a site without a region."""
    return Failed(
        failure=FailureClass.INVALID_CONFIG,
        detail=f"site {node.site or '(none)'} has no MAAS configured"
        + (f", and the node has MAAS id {node.maas_id}" if node.maas_id is not None else "")
        + "; add a file with the site's name and a [maas] table to the directory of sites.directory",
    )


def elsewhere(node: Node) -> Waiting:
    """Wait for the settings of a site at which the workflow began: another controller may have its file."""
    reason = f"site {node.site or '(none)'} has no MAAS in this controller's settings; waits for its file"
    return Waiting(reason=reason, ends_by=EndsBy.PERSON, timed=False)


def gone(node: Node) -> Failed:
    """Return the failure for a machine that no longer exists."""
    return Failed(
        failure=FailureClass.MACHINE_DELETED_UPSTREAM, detail=f"machine {node.maas_id} no longer exists in MAAS"
    )


def foreign(node: Node, machine: Machine | MaasObservation) -> Failed:
    """Return the failure for a machine of another user; the text says if rescue mode gave it to this user."""
    seen = node.maas
    by_rescue = machine.status in RESCUE or (seen is not None and seen.owner_by_rescue and seen.owner == machine.owner)
    detail = (
        f"machine {machine.system_id} is owned by {(machine.owner or '')[:LONGEST_OWNER]!r} in MAAS, not by farrier"
        f"{BY_RESCUE if by_rescue else ''}; farrier changed nothing"
    )
    return Failed(failure=FailureClass.STATE_DISAGREEMENT, detail=detail)


def latest(node: Node) -> MaasObservation | None:
    """Return the last reading of the machine if it is newer than this attempt of the stage; otherwise None."""
    seen = node.maas
    return seen if seen is not None and seen.tells_of(attempt_began_at(node.live)) else None


def observed(node: Node) -> MaasObservation | Waiting | Failed:
    """Return the latest reading of a machine that is farrier's or free; otherwise the result of the stage."""
    seen = latest(node)
    if seen is None:
        return Waiting(reason="waits until farrier has read the machine in MAAS")
    if seen.status is None:
        return gone(node)
    if is_foreign(seen):
        return foreign(node, seen)
    return undefined(seen) or (undecided(seen) if is_undecided(seen) else seen)


def undefined(seen: Machine | MaasObservation) -> Waiting | None:
    """Wait while the machine is in a status that this release does not know: such a status proves nothing."""
    said = not_known(seen)
    return None if said is None else Waiting(reason=said, requeue_after=REGION_AGAIN)


def is_foreign(seen: MaasObservation) -> bool:
    """Return whether another MAAS user is known to own the machine."""
    return bool(seen.owner) and seen.ours is False


def is_undecided(seen: MaasObservation) -> bool:
    """Return whether it is undecided who owns the machine. This is so if MAAS reports an owner, but farrier does not
    know its own user in MAAS, for example after a change of the URL."""
    return bool(seen.owner) and seen.ours is None


def undecided(seen: MaasObservation) -> Waiting:
    """Wait, because nobody knows who owns the machine. This wait does not count against the stage's deadline."""
    return Waiting(reason=f"waits for a read that shows the owner of machine {seen.system_id}", timed=False)


def asking(node: Node, now: datetime, change: Change, what: str, *, record: str | None = None) -> Send | Failed:
    """Request the change, but only one time in each attempt of the stage. `what` describes the change. The workflow
    records the request as `record`; if `record` is None, it records the change itself."""
    record = record or repr(change)
    if was_asked(node, record):
        detail = f"MAAS accepted a change but does not show it: {what}"
        return Failed(failure=FailureClass.UPSTREAM_ERROR, detail=detail)
    to = with_note(node, asked=record, asked_at=now)
    return Send(change=change, reason=what, then=StageStep(to=to, reason=f"requested from MAAS: {what}"))


def was_asked(node: Node, record: str) -> bool:
    """Return whether this attempt of the stage has already requested the change."""
    memo = node.live.memo
    if memo.asked != record or memo.asked_at is None:
        return False
    return memo.asked_at >= attempt_began_at(node.live)


def of_error(error: MaasError) -> Settled:
    """Return the result of the stage after a failed call. The next run reads whether the change was made."""
    detail = f"{error.operation}: {error.failure}: {error.detail}"
    match error.failure:
        case F.AUTH | F.CLOCK_SKEW | F.TLS:
            return Waiting(
                reason=f"MAAS: {detail}",
                ends_by=EndsBy.PERSON,
                requeue_after=error.retry_after or REGION_AGAIN,
                timed=False,
            )
        case F.UNREACHABLE | F.BUSY:
            return Waiting(reason=f"MAAS: {detail}", requeue_after=error.retry_after or REGION_AGAIN, timed=False)
        case F.CONFLICT:
            return Waiting(reason=f"MAAS: {detail}", requeue_after=CONFLICT_AGAIN)
        case F.FOREIGN_OWNER:
            return Failed(failure=FailureClass.STATE_DISAGREEMENT, detail=detail)
        case F.FORBIDDEN | F.INVALID:
            return Failed(failure=FailureClass.UPSTREAM_REFUSED, detail=detail)
        case F.ADDRESS_TAKEN:
            return Failed(failure=FailureClass.INVALID_CONFIG, detail=detail)
        case F.CAPACITY:
            return Failed(failure=FailureClass.CAPACITY, detail=detail)
        case F.POWER:
            return Failed(failure=FailureClass.POWER_FAILED, detail=detail)
        case F.ABSENT | F.UPSTREAM | F.TIMEOUT | F.PROTOCOL:
            return Failed(failure=FailureClass.UPSTREAM_ERROR, detail=detail)
        case _ as never:
            assert_never(never)


def comment(node: Node, what: str) -> str:
    """Return the comment by which farrier recognises its requests in the region's events. A repeated request has the
    same comment. The ID is for operators; the mark is unique across databases.
    """
    workflow = node.workflow
    assert workflow is not None and workflow.mark, "a stage runs in a workflow that is stored"
    return f"farrier {workflow.kind} {workflow.id} {workflow.mark}: {what}"


def site_of(node: Node, policy: Policy) -> Site:
    """Return the node's site. Only stages that run only at configured sites may call this function."""
    assert node.site is not None, "load_site_config has checked this"
    return policy.sites[node.site]
