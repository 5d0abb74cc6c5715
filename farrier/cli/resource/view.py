"""Prints resources of any kind: a line of a list, all details of one resource, and the explanation of its state."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from farrier.cli.node import inspection
from farrier.cli.output import printing
from farrier.cli.output.lists import Column
from farrier.cli.output.printing import Cell
from farrier.model.advice.explanation import ResourceWhy
from farrier.model.node.clocks import worst
from farrier.model.node.limits import Limits
from farrier.model.views.resources import ResourceDetail, ResourceView, clocks_of


def columns(limits: Limits) -> tuple[Column[ResourceView], ...]:
    """Return the columns of a list of resources."""
    return (
        Column("NAME", lambda each, _: each.name),
        Column("STATE", lambda each, _: printing.state(each.state)),
        Column("FOR", lambda each, now: printing.ago(each.state_entered_at, now), ages=True),
        Column("ABOVE SLA", lambda each, now: printing.excess(worst(clocks_of(each, now, limits))), ages=True),
        Column("SITE", lambda each, _: each.site),
        Column("HAS", lambda each, _: " ".join(f"{name}={value}" for name, value in _own(each, short=True))),
        Column("NOTE", lambda each, _: each.last_error),
        Column("ID", lambda each, _: str(each.id), wide=True),
        Column("LAYERS", lambda each, _: ", ".join(f"{at.layer}: {at.state}" for at in each.layers[1:]), wide=True),
        Column("CONTROLLER", lambda each, _: each.controller, wide=True),
        Column("AGE", lambda each, now: printing.ago(each.created_at, now), wide=True, ages=True),
        Column("ENDED", lambda each, _: printing.moment(each.ended_at), wide=True),
    )


def as_object(resource: ResourceView, now: datetime, limits: Limits) -> dict[str, Any]:
    """Return a resource in its JSON form, with its running clocks."""
    found: dict[str, Any] = printing.plain(resource)
    return found | {"clocks": printing.plain(clocks_of(resource, now, limits))}


def facts(detail: ResourceDetail, now: datetime, limits: Limits) -> None:
    """Print all data of a resource."""
    resource = detail.resource
    printing.facts(_facts(resource, now))
    inspection.tables(clocks_of(resource, now, limits), detail.requests, now)


def _facts(resource: ResourceView, now: datetime) -> Iterable[tuple[str, Cell]]:
    yield resource.kind, f"{resource.name} (id {resource.id}, version {resource.version})"
    yield "state", printing.state(resource.state)
    yield "site", resource.site
    yield from _own(resource)
    yield "error", resource.last_error
    yield "made", f"{printing.moment(resource.created_at)} UTC"
    if resource.ended_at is not None:
        yield "ended", f"{printing.moment(resource.ended_at)} UTC, {printing.ago(resource.ended_at, now)} ago"
    if resource.outcome is not None:
        said = (resource.outcome.outcome, resource.outcome.error, resource.outcome.reason)
        yield "last outcome", " ".join(filter(None, said))
        yield "source", resource.outcome.source


def in_words(why: ResourceWhy, now: datetime) -> Iterable[tuple[str, Cell]]:
    """Return the lines that explain the resource's state."""
    yield why.name, f"is {why.state}"
    yield from inspection.in_words(why, (("unanswered", request) for request in why.unanswered), now)


def _own(resource: ResourceView, *, short: bool = False) -> Iterable[tuple[str, str]]:
    """Return the name and value of each of the kind's own columns that has a value. Omits the times at which layers
    entered their states, because the clocks show them. `short` omits lists and objects, so that the other values fit on
    one line."""
    times = {f"{at.layer}_entered_at" for at in resource.layers}
    for name, value in resource.detail.items():
        if name in times or value in (None, "", [], {}) or (short and isinstance(value, (list, dict))):
            continue
        yield name, printing.text(value)
