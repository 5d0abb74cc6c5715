"""The clocks of one node: one for each layer, one for the stage of its workflow, and one for the whole workflow.

The clock of a stage runs until the workflow leaves the stage or waits for an operator, so retries do not restart it. In
the same way, the clock of a pending verification runs on while farrier verifies the BMC. This module compares a
`views.NodeView` with the limits of `farrier.model.node.sla`. Views that show late nodes use this module; the handler
does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

import msgspec

from farrier.model.node import sla
from farrier.model.node.layers import RETRIED, Layer, Management, NodeStatus, WorkflowKind, WorkflowStatus
from farrier.model.node.limits import Limits, Overrides
from farrier.model.node.sla import SlaFacts
from farrier.model.node.stages import STAGES
from farrier.model.views.nodes import NodeView, WorkflowView

END_TO_END = "end to end"


class StateClock(msgspec.Struct, frozen=True, kw_only=True):
    """The time that a layer has been in its state. `limit` is None if the state has no limit; `note` then has the
    reason. `above` is the time above the limit, or None if the clock is within its limit."""

    layer: str
    state: str
    since: datetime
    limit: timedelta | None
    above: timedelta | None
    note: str = ""

    @classmethod
    def of(
        cls, layer: str, state: str, since: datetime, now: datetime, *, limit: timedelta | None, note: str = ""
    ) -> StateClock:
        """Return the clock of a layer that entered this state at `since`. `note` is the reason if there is no limit."""
        return cls(
            layer=str(layer),
            state=str(state),
            since=since,
            limit=limit,
            above=sla.breach(limit, since, now),
            note=note if limit is None else "",
        )


class Overdue(msgspec.Struct, frozen=True):
    """A node with at least one clock above its limit, and all its clocks that are above their limits, the worst
    first."""

    node: NodeView
    clocks: tuple[StateClock, ...]

    @property
    def excess(self) -> timedelta:
        """By how much the worst clock exceeds its limit."""
        return self.clocks[0].above or timedelta(0)


class OverduePage(msgspec.Struct, frozen=True):
    """Nodes with a clock above its limit at `now`, the worst first. `more` is the number of further such nodes."""

    now: datetime
    rows: tuple[Overdue, ...]
    more: int = 0


def running(node: NodeView, now: datetime, limits: Limits) -> tuple[StateClock, ...]:
    """Return every running clock of the node, by layer. `limits` contains the limits that differ from the defaults. The
    result is empty if this program does not know the node's state."""
    try:
        return tuple(_clocks(node, now, limits.of(node.site, node.model)))
    except ValueError:
        return ()


def above(node: NodeView, now: datetime, limits: Limits) -> tuple[StateClock, ...]:
    """Return the clocks of the node that are above their limits, the worst first."""
    over = [clock for clock in running(node, now, limits) if clock.above is not None]
    return tuple(sorted(over, key=lambda clock: clock.above or timedelta(0), reverse=True))


def worst(of: Iterable[StateClock]) -> StateClock | None:
    """Return the clock that is furthest above its limit; None if no clock is above its limit."""
    late = (clock for clock in of if clock.above is not None)
    return max(late, key=lambda clock: clock.above or timedelta(0), default=None)


def _clocks(node: NodeView, now: datetime, limits: Overrides) -> Iterator[StateClock]:
    facts = SlaFacts(
        management=Management(node.management or Management.UNMANAGED),
        manage_asked=node.verify_pending_at is not None,
        onboarding=None if node.last_onboarding is None else WorkflowStatus(node.last_onboarding),
        has_mode=node.workflow is None or node.workflow.mode is not None,
    )
    status = NodeStatus(node.status)
    places: list[tuple[Layer, NodeStatus | Management, datetime]] = [(Layer.STATUS, status, node.status_entered_at)]
    if node.management_entered_at is not None:  # a deleted node has no management state
        pending = facts.management in {Management.ENROLL, Management.VERIFYING}
        if pending and node.verify_pending_at is not None:
            places.append((Layer.MANAGEMENT, Management.ENROLL, node.verify_pending_at))
        if facts.management is not Management.ENROLL or node.verify_pending_at is None:
            places.append((Layer.MANAGEMENT, facts.management, node.management_entered_at))
    for layer, state, since in places:
        limit = sla.limit(layer, state, facts=facts, overrides=limits)
        yield StateClock.of(layer, state, since, now, limit=limit, note=_why_none(layer, state))
    if node.workflow is not None:
        yield from _workflow_clocks(node.workflow, facts, now, limits)


def _workflow_clocks(workflow: WorkflowView, facts: SlaFacts, now: datetime, limits: Overrides) -> Iterator[StateClock]:
    layer, status = Layer(workflow.kind), WorkflowStatus(workflow.status)
    stage = None if workflow.stage is None else STAGES[WorkflowKind(workflow.kind)](workflow.stage)
    if stage is not None and status in {WorkflowStatus.RUNNING, *RETRIED}:
        lasts = sla.limit(layer, WorkflowStatus.RUNNING, stage=stage, facts=facts, overrides=limits)
        yield StateClock.of(layer, f"{WorkflowStatus.RUNNING}/{stage}", workflow.stage_entered_at, now, limit=lasts)
    if stage is None or status is not WorkflowStatus.RUNNING:
        lasts = sla.limit(layer, status, facts=facts, overrides=limits)
        since, note = workflow.status_entered_at, _why_none(layer, status)
        yield StateClock.of(layer, status, since, now, limit=lasts, note=note)
    if workflow.mode_given_at is not None:
        whole = sla.end_to_end(layer, overrides=limits)
        yield StateClock.of(layer, END_TO_END, workflow.mode_given_at, now, limit=whole)


def _why_none(layer: Layer, state: str) -> str:
    default = sla.DEFAULTS[layer][state]
    return default.why_none or default.unless
