"""The snapshot of a node after a commit, computed from the snapshot before it, so that the node need not be loaded.

Most commits leave a node that then waits or rests. The database sets some times in the commit; in the computed
snapshot, these are the time of the run, which is a little earlier.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from operator import attrgetter

from msgspec.structs import replace

from farrier.handlers.node.changes import Change
from farrier.model.machine.observation import Outage
from farrier.model.node.conditions import Condition
from farrier.model.node.evidence import ExpectedDevices
from farrier.model.node.layers import LIVE, SUCCEEDED, Management
from farrier.model.node.layers import NodeStatus as N
from farrier.model.node.snapshot import Node, Onboarding, Workflow
from farrier.model.node.writes import AnswerIntent, LeaveService, RevokeBootstrap

# The fields that a run may change. Any other field needs a load, because the database derives more from it.
_FIELDS = ("status", "ever_onboarded", "ever_active", "redeploying", "cleaned", "bmc", "conditions", "workflow")
# The database derives more from these facts of the BMC: when the power was first read, and which nodes share a machine.
_derived_from = attrgetter("power", "serial", "uuid", "manufacturer", "macs")
# A load reads no more intents (node/load.sql), so others may wait.
_MOST_INTENTS = 100
# A node without a live workflow is computed only in these statuses.
_IDLE = frozenset({N.ACTIVE, N.OFFLINE, N.QUARANTINED})


def after(node: Node, changed: Change, now: datetime) -> Node | None:
    """Return the snapshot that a load would return if `changed` was committed at `now`, or None if only a load knows
    it."""
    to = changed.to
    if to != replace(node, **{name: getattr(to, name) for name in _FIELDS}) or len(node.intents) >= _MOST_INTENTS:
        return None
    computed = all(isinstance(write, AnswerIntent | LeaveService | RevokeBootstrap) for write in changed.writes)
    if not computed or _derived_from(to.bmc) != _derived_from(node.bmc) or to.bmc.trying is not None:
        return None
    answered = {write.intent for write in changed.writes if isinstance(write, AnswerIntent)}
    stored = replace(
        to,
        version=node.version + 1,
        status_entered_at=node.status_entered_at if to.status is node.status else now,
        conditions=_stored(node.conditions, to.conditions, now),
        stored_power_at=None,
        braked=(),
        intents=tuple(intent for intent in node.intents if intent.id not in answered),
    )
    return _with_workflow(node, stored, now)


def _with_workflow(node: Node, to: Node, now: datetime) -> Node | None:
    """Return `to`, the node after the commit, with the workflow that a load would return."""
    was, workflow = node.workflow, to.workflow
    if was is not None and workflow is not None and workflow.id == was.id != 0:
        if workflow.status not in LIVE:
            return _without_workflow(to) if to.status in _IDLE else None
        # A decommission reads tasks and devices; a candidate is compared with other nodes.
        if isinstance(workflow, Onboarding) and workflow.memo.candidate == was.memo.candidate:
            return replace(to, workflow=_at(was, workflow, now))
    return to if was is None and workflow is None and to.status in _IDLE else None


def _at(was: Workflow, workflow: Onboarding, now: datetime) -> Onboarding:
    """Return the onboarding with the times that the database gives to a new status and a new stage."""
    return replace(
        workflow,
        status_entered_at=was.status_entered_at if workflow.status is was.status else now,
        stage_entered_at=was.stage_entered_at if workflow.stage is was.stage else now,
    )


def _stored(before: tuple[Condition, ...], to: tuple[Condition, ...], now: datetime) -> tuple[Condition, ...]:
    """Return the conditions with the times that the database gives to new and changed ones, in the order of a load."""
    if before is to:
        return to
    known = {each.key: each for each in before}
    stored = [
        each
        if known.get(each.key) == each
        else replace(each, since=known[each.key].since if each.key in known else now, seen_at=now)
        for each in to
    ]
    return tuple(sorted(stored, key=lambda each: (each.since, *each.key)))


def _without_workflow(node: Node) -> Node:
    """Return the node without its ended workflow, and without the facts that a snapshot has only for a live one. From
    now on, only outages count in which the node's agent or its BMC waited."""
    workflow, waits_since = node.workflow, []
    if node.agent is not None and node.agent.last_heartbeat_at is not None:
        waits_since.append(node.agent.last_heartbeat_at)
    if node.bmc_address is not None and node.management is not Management.MANAGEABLE:
        waits_since.append(node.management_entered_at)
    onboarded = isinstance(workflow, Onboarding) and workflow.status in SUCCEEDED and node.maas_id is not None
    return replace(
        node,
        workflow=None,
        onboarded_by=workflow.mode if onboarded and isinstance(workflow, Onboarding) else node.onboarded_by,
        labels={},
        networks=None,
        ib_guids=None,
        region=None,
        outages=(),
        gaps=_after(node.gaps, waits_since),
        unreachable=_after(node.unreachable, waits_since),
        candidate_of=None,
        secrets_left=None,
        tasks=(),
        expected=ExpectedDevices(),
    )


def _after(outages: tuple[Outage, ...], times: Sequence[datetime]) -> tuple[Outage, ...]:
    """Return the outages that ended after the earliest of these times."""
    return tuple(each for each in outages if times and each.ended_at is not None and each.ended_at > min(times))
