"""Explains in plain words what a node or another resource waits for, its errors, and the recommended action.

The commands `farrier node why` and `farrier resource why`, and the pages, use these pure functions of the resource's
view, so an explanation cannot contradict `node show`. Module `diagnosis` finds the errors of a node, and `choice` the
recommended action. The explanation of a resource depends on no kind, so it shows errors as the handler wrote them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

import msgspec

from farrier.model import duration
from farrier.model.advice import choice as advice
from farrier.model.advice import diagnosis, recommended
from farrier.model.advice.diagnosis import Patience
from farrier.model.advice.recommended import Advice, Recommended
from farrier.model.intents.workflow_condition import POWER_IS_FREE
from farrier.model.loop import restores
from farrier.model.loop.outcome import EndsBy, Record
from farrier.model.machine import expected
from farrier.model.machine.health import Alert
from farrier.model.node import clocks, conditions
from farrier.model.node.clocks import StateClock
from farrier.model.node.layers import NodeStatus, WorkflowStatus
from farrier.model.node.limits import Limits
from farrier.model.views import sweeps
from farrier.model.views.nodes import MaasView, NodeDetail, RequestView
from farrier.model.views.resources import ResourceDetail, ResourceView, clocks_of


class Why(msgspec.Struct, frozen=True, kw_only=True):
    """The explanation of a node. `since` is when a run first stated the current reason, and `source` is the line of
    code that stated it. `run_by` describes the controller and the last sweep; it is empty for a deleted node.
    `unanswered` lists intents without an answer, the oldest first. The fields about the BMC, the heartbeat and MAAS are
    None if the node does not have them. `ends_by` is what ends the node's wait. `advice` is the recommended action, and
    `recommended` are its intents. `command` is the command that carries out the advice; it is None unless exactly one
    intent without open parameters is recommended."""

    node: str
    status: str
    management: str | None
    reason: str
    since: datetime | None
    clocks: tuple[StateClock, ...]
    errors: tuple[str, ...]
    quarantine: str | None
    quarantined_by: str | None
    paused_by: str | None
    unanswered: tuple[RequestView, ...]
    bmc_address: str | None
    last_heartbeat_at: datetime | None
    alerts: tuple[Alert, ...]
    maas: MaasView | None
    source: str
    run_by: str
    ends_by: EndsBy | None
    advice: str
    recommended: tuple[Recommended, ...]
    command: str | None


class NextAction(msgspec.Struct, frozen=True, kw_only=True):
    """The recommended next action for a node: the `advice` in words, its `intents`, of which the operator chooses one,
    and what ends the node's wait. `command` is the command that carries out the advice; None unless a single intent
    does."""

    advice: str
    intents: tuple[Recommended, ...]
    ends_by: EndsBy | None
    command: str | None

    @classmethod
    def of(cls, why: Why) -> NextAction:
        """Return the recommendation of an explanation."""
        return cls(advice=why.advice, intents=why.recommended, ends_by=why.ends_by, command=why.command)


def explain(
    node: NodeDetail,
    now: datetime,
    limits: Limits,
    patience: Patience | None = None,
    *,
    period: timedelta = sweeps.PERIOD,
    accepts: advice.Accepts | None = None,
) -> Why:
    """Explain a node. `limits` contains the limits that differ from the defaults. If `patience` is None, the default
    applies. `period` is the resync period of the controllers. `accepts` returns what a controller answered about an
    intent of `candidates`."""
    chosen = advice.of_node(_case(node, now, limits, patience, period), accepts)
    return Why(
        node=node.name,
        status=node.status,
        management=node.management,
        reason=_reason(node),
        since=node.outcome_at,
        clocks=clocks.running(node, now, limits),
        errors=tuple(_errors(node, now, patience or Patience())),
        quarantine=_quarantine(node) if diagnosis.goes_on(node) else None,
        quarantined_by=node.quarantined_by,
        paused_by=node.paused_by,
        unanswered=diagnosis.unanswered(node),
        bmc_address=node.bmc_address,
        last_heartbeat_at=None if node.agentless else node.last_heartbeat_at,
        alerts=node.alerts,
        maas=node.maas,
        source=node.outcome.source if node.outcome is not None else "",
        run_by="" if diagnosis.is_deleted(node) else sweeps.in_words(node, now),
        ends_by=_ends_by(node, chosen),
        advice=recommended.text(chosen) or advice.NO_ACTION,
        recommended=chosen.intents,
        command=recommended.command(chosen, node.name),
    )


def candidates(
    node: NodeDetail,
    now: datetime,
    limits: Limits,
    patience: Patience | None = None,
    *,
    period: timedelta = sweeps.PERIOD,
) -> tuple[Recommended, ...]:
    """Return the intents that the advice about the node may name, for a question to a controller."""
    return advice.candidates(_case(node, now, limits, patience, period))


def _case(node: NodeDetail, now: datetime, limits: Limits, patience: Patience | None, period: timedelta) -> advice.Case:
    return advice.Case(node, now, clocks.above(node, now, limits), patience or Patience(), period)


def _ends_by(node: NodeDetail, chosen: Advice) -> EndsBy | None:
    """Return what ends the wait of the node; None if it waits for nothing."""
    outcome = node.outcome
    if chosen.todo or chosen.intents:
        return EndsBy.ITSELF if _is_retried(node) else EndsBy.PERSON
    if outcome is None or outcome.outcome != "wait" or diagnosis.is_deleted(node):
        return chosen.ends_by if chosen.wait else None
    return EndsBy.CONFIRMATION if outcome.ends_by == EndsBy.CONFIRMATION else EndsBy.ITSELF


def _is_retried(node: NodeDetail) -> bool:
    """Return whether the node's last run waits for the retry of a failed stage, which an operator may only hasten."""
    failed = node.workflow is not None and node.workflow.status == WorkflowStatus.FAILED_RETRYABLE
    return failed and node.outcome is not None and node.outcome.ends_by == EndsBy.ITSELF


def _reason(node: NodeDetail) -> str:
    if node.restored_at is not None:
        return restores.reason(node.restored_at, node.outcome)
    if diagnosis.is_held(node):
        return f"waits for unpause: {node.paused}"
    asked = diagnosis.unanswered(node)
    if asked and (node.outcome is None or node.outcome.outcome == "do_nothing"):
        return f"waits for a run that answers intent {asked[0].id} ({asked[0].action})"
    return _of_last_run(node.outcome, ended=diagnosis.is_deleted(node))


def _of_last_run(outcome: Record | None, *, ended: bool) -> str:
    """Return why a resource of any kind stays in its state, according to its last run."""
    if ended:
        return "waits for nothing: it is deleted"
    if outcome is None:
        return "waits for its first run"
    match outcome.outcome:
        case "error":
            return f"waits for a run without an error: the last run failed with {outcome.error}"
        case "do_nothing" | "deleted":
            return "waits for nothing: it is in its target state"
        case "transition" | "update":
            return f"waits for its next run; reason of the last run: {outcome.reason}"
        case _:
            return outcome.reason


def _errors(node: NodeDetail, now: datetime, patience: Patience) -> Iterator[str]:
    if node.outcome is not None and node.outcome.error:
        yield f"last run: {node.outcome.error}: {node.outcome.reason}"
    if diagnosis.is_unowned(node):
        yield f"{node.status} without a live decommission: the database was restored from a backup or edited by hand"
    workflow = node.workflow or node.last_workflow
    if workflow is not None and workflow.failure_class is not None:
        detail = f": {workflow.failure_detail}" if workflow.failure_detail else ""
        yield f"{workflow.kind}, stage {workflow.stage}: {workflow.failure_class}{detail}"
    yield from _in_maas(node, now, patience)
    if node.bmc.last_error is not None:
        yield f"BMC: {node.bmc.failure}: {node.bmc.last_error}" if node.bmc.failure else f"BMC: {node.bmc.last_error}"
    if node.braked_at is not None:
        yield (
            "the brake of the site keeps the node in service, because too many nodes of the site would leave "
            "service together"
        )
    if node.unreachable is not None and not diagnosis.is_deleted(node):
        yield (
            f"the silence of the node's agent does not count since {node.unreachable.since:%Y-%m-%d %H:%M:%S} UTC, "
            f"{duration.human(node.unreachable.ago(now))} ago: {node.unreachable.text}"
        )
    yield from _of_other_nodes(node)
    if diagnosis.is_unread(node):
        yield f"power, as of {_last_read(node)}: {node.bmc.sync_failure}: {node.bmc.sync_error}"
    yield from _not_kept(node)
    yield from _conditions(node, now)


def _conditions(node: NodeDetail, now: datetime) -> Iterator[str]:
    """Yield what keeps the node out of service, which conditions are unknown, and its notes."""
    if diagnosis.is_unvalidated(node):
        yield f"cleanup not validated: {node.quarantine_reason}"
    elif node.quarantine_cause is not None and not diagnosis.goes_on(node):
        is_quarantined = node.status == NodeStatus.QUARANTINED
        yield f"{'quarantined' if is_quarantined else 'not fit for service'}, {_quarantine(node)}"
    for each in conditions.expired(node.conditions, now):
        yield f"{each.name} is unknown since {each.expires_at:%Y-%m-%d %H:%M:%S} UTC: its monitor did not repeat it"
    yield from (f"note, {note.text}" for note in conditions.shown_notes(node.conditions))


def _of_other_nodes(node: NodeDetail) -> Iterator[str]:
    """Yield the other nodes that recorded the machine, or a machine with a value in common."""
    if node.same_machine:
        others = ", ".join(node.same_machine)
        yield f"{others} recorded the same machine: an action on one of the nodes also affects the others"
    if node.alike_machines:
        yield (
            f"the machine has {', '.join(node.alike_machines)}, but otherwise differs, so farrier treats them as two "
            "machines; if they are one machine, clear the BMC of one of the nodes"
        )


def _in_maas(node: NodeDetail, now: datetime, patience: Patience) -> Iterator[str]:
    """Yield the errors of the region of the node's site, and the difference between MAAS and the node's status."""
    region = diagnosis.bad_region(node)
    if region is not None:
        error = f": {region.last_error}" if region.last_error else ""
        yield f"MAAS of site {region.site}, {region.state} for {duration.human(now - region.since)}{error}"
    if node.maas is None:
        return
    for said in (diagnosis.not_as_expected(node, now, patience), expected.not_known(node.maas)):
        if said is not None:
            yield f"{said}; read {duration.human(now - node.maas.read_at)} ago"


def _quarantine(node: NodeDetail) -> str | None:
    """Return why the node is quarantined. As long as a live workflow may end the quarantine, the quarantine does not
    count as an error."""
    return None if node.quarantine_cause is None else f"{node.quarantine_cause}: {node.quarantine_reason}"


def _not_kept(node: NodeDetail) -> Iterator[str]:
    """Yield why the power differs from the enforced power: the switch failed, or farrier may not switch now."""
    bmc, workflow = node.bmc, node.workflow
    if not diagnosis.is_unkept(node):
        return
    differs = f"power is {bmc.power}, target power is {bmc.desired_power}"
    if bmc.enforce_error is not None:
        yield f"{differs}: {bmc.enforce_error}"
    if workflow is not None and not POWER_IS_FREE.fits(workflow):
        yield f"{differs}: {workflow.kind} {workflow.id} controls the power while the workflow is live"


def _last_read(node: NodeDetail) -> str:
    return "never" if node.bmc.power_at is None else f"{node.bmc.power_at:%Y-%m-%d %H:%M:%S} UTC"


class ResourceWhy(msgspec.Struct, frozen=True, kw_only=True):
    """The explanation of a resource. `since` is when a run first stated the current reason, and `source` is the line of
    code that stated it. `ends_by` is what ends its wait. `run_by` describes the controller and the last sweep; it is
    empty for a resource that has ended."""

    kind: str
    name: str
    state: str
    reason: str
    since: datetime | None
    clocks: tuple[StateClock, ...]
    errors: tuple[str, ...]
    unanswered: tuple[str, ...]
    source: str
    run_by: str
    ends_by: EndsBy | None
    advice: str


def explain_resource(
    detail: ResourceDetail, now: datetime, limits: Limits, *, period: timedelta = sweeps.PERIOD
) -> ResourceWhy:
    """Explain a resource of a registered kind. `limits` contains the limits that differ from the defaults of the kind.
    `period` is the resync period of the controllers."""
    resource, outcome = detail.resource, detail.resource.outcome
    ended = resource.ended_at is not None
    reason = _of_last_run(outcome, ended=ended)
    if resource.restored_at is not None:
        reason = restores.reason(resource.restored_at, outcome)
    of_resource = clocks_of(resource, now, limits)
    unanswered = tuple(each for each in detail.requests if each.status == "pending")
    return ResourceWhy(
        kind=resource.kind,
        name=resource.name,
        state=resource.state,
        reason=reason,
        since=resource.outcome_at,
        clocks=of_resource,
        errors=tuple(_errors_of(resource)),
        unanswered=tuple(f"{each.action} (intent {each.id})" for each in unanswered),
        source=outcome.source if outcome is not None else "",
        run_by="" if ended else sweeps.in_words(resource, now),
        # None if the resource waits for nothing, or if only a newer release knows what ends the wait
        ends_by=next((each for each in EndsBy if outcome is not None and not ended and each == outcome.ends_by), None),
        advice=next(_advice_about(resource, now, period, of_resource), advice.NO_ACTION),
    )


def _errors_of(resource: ResourceView) -> Iterator[str]:
    if resource.outcome is not None and resource.outcome.error:
        yield f"last run: {resource.outcome.error}: {resource.outcome.reason}"
    if resource.last_error is not None:
        yield resource.last_error


def _advice_about(
    resource: ResourceView, now: datetime, period: timedelta, running: Sequence[StateClock]
) -> Iterator[str]:
    if resource.ended_at is None:
        yield from advice.filter_runs(resource, now, period)
    if resource.restored_at is not None:
        yield restores.LIFT
    if resource.last_error is not None:
        yield "fix the cause that the error names; farrier retries by itself"
    if resource.outcome is not None and resource.outcome.outcome == "wait":
        yield (
            "fix the cause that the reason names, unless the reason is only a delay; farrier then continues by itself"
        )
    for clock in sorted(running, key=lambda each: each.above or timedelta(0), reverse=True):
        if clock.above is not None:
            yield advice.of_late_clock(clock, "resource")
