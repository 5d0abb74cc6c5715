"""Explains in plain words what a resource of a registered kind waits for, its errors, and the recommended action.

The command `farrier resource why` uses this pure function of the resource's view. The module does not depend on any
kind, so it shows errors as the texts that the handler wrote.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

import msgspec

from farrier.model.advice import choice as advice
from farrier.model.advice import why_node
from farrier.model.loop import restores
from farrier.model.loop.outcome import EndsBy
from farrier.model.node.clocks import StateClock
from farrier.model.node.limits import Limits
from farrier.model.views import sweeps
from farrier.model.views.resources import ResourceDetail, ResourceView, clocks_of


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


def explain(detail: ResourceDetail, now: datetime, limits: Limits, *, period: timedelta = sweeps.PERIOD) -> ResourceWhy:
    """Explain a resource. `limits` contains the limits that differ from the defaults of the resource's kind. `period`
    is the resync period of the controllers."""
    resource = detail.resource
    ended = resource.ended_at is not None
    clocks = clocks_of(resource, now, limits)
    unanswered = tuple(each for each in detail.requests if each.status == "pending")
    return ResourceWhy(
        kind=resource.kind,
        name=resource.name,
        state=resource.state,
        reason=_reason(resource),
        since=resource.outcome_at,
        clocks=clocks,
        errors=tuple(_errors(resource)),
        unanswered=tuple(f"{each.action} (intent {each.id})" for each in unanswered),
        source=resource.outcome.source if resource.outcome is not None else "",
        run_by="" if ended else sweeps.in_words(resource, now),
        ends_by=_ends_by(resource),
        advice=next(_advice(resource, now, period, clocks), "no action is needed"),
    )


def _reason(resource: ResourceView) -> str:
    if resource.restored_at is not None:
        return restores.reason(resource.restored_at, resource.outcome)
    return why_node.reason(resource.outcome, ended=resource.ended_at is not None)


def _ends_by(resource: ResourceView) -> EndsBy | None:
    """Return what ends the wait of the resource; None if it waits for nothing, or if a newer release knows it."""
    outcome = resource.outcome
    if outcome is None or resource.ended_at is not None:
        return None
    return next((each for each in EndsBy if each == outcome.ends_by), None)


def _errors(resource: ResourceView) -> Iterator[str]:
    if resource.outcome is not None and resource.outcome.error:
        yield f"last run: {resource.outcome.error}: {resource.outcome.reason}"
    if resource.last_error is not None:
        yield resource.last_error


def _advice(resource: ResourceView, now: datetime, period: timedelta, clocks: Sequence[StateClock]) -> Iterator[str]:
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
    for clock in sorted(clocks, key=lambda each: each.above or timedelta(0), reverse=True):
        if clock.above is not None:
            yield advice.of_late_clock(clock, "resource")
