"""In plain words: what a resource of a registered kind waits for, what went wrong, and what a person should do.

Behind `farrier resource why`, as `why` is behind `farrier node why`. A pure function of what is shown of the resource
anyway; knows no kind, so what it says of errors are the handler's own words.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import msgspec

from farrier.model import advice, why
from farrier.model.clocks import Clock
from farrier.model.limits import Limits
from farrier.model.resource_views import ResourceDetail, ResourceView, clock_of


class ResourceWhy(msgspec.Struct, frozen=True, kw_only=True):
    """`since` is when the last run first said so, `source` the line that said it; `next_run` is in words."""

    kind: str
    name: str
    state: str
    waits_for: str
    since: datetime | None
    clock: Clock | None
    errors: tuple[str, ...]
    unanswered: tuple[str, ...]
    source: str
    next_run: str
    advice: str


def explain(detail: ResourceDetail, now: datetime, limits: Limits) -> ResourceWhy:
    """Why the resource is where it is. `limits` are those that are not its kind's own."""
    resource = detail.resource
    unanswered = tuple(each for each in detail.requests if each.status == "pending")
    return ResourceWhy(
        kind=resource.kind,
        name=resource.name,
        state=resource.state,
        waits_for=why.waits_for(resource.outcome, resource.next_run_at),
        since=resource.outcome_at,
        clock=clock_of(resource, now, limits),
        errors=tuple(_errors(resource)),
        unanswered=tuple(f"{each.action} (intent {each.id})" for each in unanswered),
        source=resource.outcome.source if resource.outcome is not None else "",
        next_run=why.next_run(resource.next_run_at, now, running=resource.running),
        advice=next(_advice(resource, now, asked=bool(unanswered)), "nothing to do"),
    )


def _errors(resource: ResourceView) -> Iterator[str]:
    if resource.outcome is not None and resource.outcome.error:
        yield f"last run: {resource.outcome.error}: {resource.outcome.reason}"
    if resource.last_error is not None:
        yield resource.last_error


def _advice(resource: ResourceView, now: datetime, *, asked: bool) -> Iterator[str]:
    if resource.next_run_at is not None:
        yield from advice.of_runs(resource.outcome, resource.next_run_at, now, asked=asked)
    if resource.last_error is not None:
        yield "see to what the error says; it is tried again by itself"
    if resource.outcome is not None and resource.outcome.outcome == "wait":
        yield "see to what it waits for, where that does not come by itself"
