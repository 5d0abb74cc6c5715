"""API operations on the fleet: list tasks, controllers, brakes and what is above a limit, show figures, enqueue a
resource, lift the brake of a site, and lift holds after a restore."""

from __future__ import annotations

from datetime import timedelta
from http import HTTPStatus
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from starlette.responses import Response

from farrier.model.api_token import Scope
from farrier.model.intents.params import BRAKE_LIFT_MAX, REASON_MAX
from farrier.model.intents.requests import IntentRequest
from farrier.model.loop.restores import Lift
from farrier.model.node.clocks import StateClock
from farrier.model.node.layers import NODE
from farrier.model.node.snapshot import TaskStatus
from farrier.model.views.fleet import ShardOwnership
from farrier.model.views.nodes import Figures
from farrier.model.views.resources import LateResource, late_clock
from farrier.model.views.responses import (
    MOST_ROWS,
    Brakes,
    Breaches,
    ClockView,
    Enqueued,
    ForeseenAnswers,
    Holds,
    LateNode,
    LateOther,
    LiftedHolds,
    Tasks,
)
from farrier.web.api import operation
from farrier.web.api.operation import ApiRequest, NoParameters, Operation, ResponseType, reads, refusal
from farrier.web.api.parameter_types import Limit, Nodes, OfNode, OfResource, narrowed
from farrier.web.server.access import requester
from farrier.web.server.backend import Backend


class TaskFilter(msgspec.Struct, frozen=True, kw_only=True):
    node: Annotated[str | None, Meta(description="Return only tasks of this node: its name or ID.")] = None
    status: Annotated[tuple[TaskStatus, ...], Meta(description="Return only tasks with one of these statuses.")] = ()
    limit: Limit = 100


class HoldFilter(msgspec.Struct, frozen=True, kw_only=True):
    kind: Annotated[str | None, Meta(description="Return only resources of this kind.")] = None
    site: Annotated[str | None, Meta(description="Return only resources of this site.")] = None


class OfSite(msgspec.Struct, frozen=True, kw_only=True):
    site: Annotated[str, Meta(description="Name of the site.")]


class BrakeLift(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Lifts the brake of a site for some time: any number of its nodes may leave service. With 0 seconds, the brake
    applies again at once."""

    reason: Annotated[str, Meta(min_length=1, max_length=REASON_MAX)]
    seconds: Annotated[float, Meta(ge=0, le=BRAKE_LIFT_MAX // timedelta(seconds=1))] = 3600
    requested_by: Annotated[str, Meta(min_length=1, max_length=255)] | None = None


class ForeseenIntent(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An intent, which is not submitted."""

    resource: Annotated[str, Meta(min_length=1, max_length=253, description="Name or ID of the resource.")]
    action: Annotated[str, Meta(min_length=1, max_length=100)]
    params: dict[str, Any] = {}


class Foreseeing(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Intents for resources of one kind."""

    kind: Annotated[str, Meta(min_length=1, max_length=63)] = NODE
    intents: Annotated[tuple[ForeseenIntent, ...], Meta(min_length=1, max_length=1000)]
    seconds: Annotated[float, Meta(ge=0, le=30, description="How long to wait for a controller.")] = 5


async def list_tasks(call: ApiRequest[TaskFilter, None]) -> Response:
    """List agent tasks, the newest first."""
    given = call.given
    page = await call.backend.queries.tasks(given.node, given.status, limit=given.limit)
    return operation.json(Tasks(now=page.now, tasks=page.rows))


async def show_figures(call: ApiRequest[NoParameters, None]) -> Response:
    """Show the figures of the fleet: nodes by status, shards without a controller, the lag, pending intents,
    nodes that brakes hold."""
    return operation.json(await call.backend.queries.figures())


async def list_controllers(call: ApiRequest[NoParameters, None]) -> Response:
    """List the controllers, expired ones first, with their shards and their lag, and the shards without a
    controller."""
    return operation.json(await call.backend.queries.controllers())


async def list_brakes(call: ApiRequest[NoParameters, None]) -> Response:
    """List the brakes that hold nodes in service, or that an operator has lifted, by site."""
    page = await call.backend.queries.brakes()
    return operation.json(Brakes(now=page.now, brakes=page.rows))


# A longer list would take CPU time, and would not help an operator. Unlike alerts, it includes paused nodes.
async def list_breaches(call: ApiRequest[Nodes, None]) -> Response:
    """List nodes and other resources above a limit, those furthest above it first: at most a thousand of each."""
    backend, chosen = call.backend, call.given.wanted()
    late = await backend.queries.overdue(chosen, backend.limits, limit=MOST_ROWS)
    nodes = tuple(LateNode(node=each.node, clocks=tuple(map(ClockView.of, each.clocks))) for each in late.rows)
    resources = tuple(
        LateOther(**msgspec.structs.asdict(each), clocks=(ClockView.of(clock),))
        for each, clock in await late_resources(backend)
        if chosen.fits_site(each.site)
    )
    return operation.json(Breaches(now=late.now, nodes=nodes, more_nodes=late.more, resources=resources))


async def late_resources(backend: Backend) -> list[tuple[LateResource, StateClock]]:
    """Return at most a thousand resources of other kinds, worst first, each with the clock that is above its limit."""
    found = await backend.queries.late(backend.limits, limit=MOST_ROWS)
    return [(each, late_clock(each, found.now)) for each in found.rows]


async def enqueue_node(call: ApiRequest[OfNode, None]) -> Response:
    """Enqueue a node, so that its handler runs as soon as possible."""
    return await _enqueue(call, NODE, call.given.node)


async def enqueue(call: ApiRequest[OfResource, None]) -> Response:
    """Enqueue a resource of any kind, so that its handler runs as soon as possible."""
    return await _enqueue(call, call.given.kind, call.given.name)


async def lift_brake(call: ApiRequest[OfSite, BrakeLift]) -> Response:
    """Lift the brake of a site for some time: any number of its nodes may leave service. The request is refused unless
    the brake holds a node of the site or is already lifted."""
    body = call.body
    await call.backend.requests.lift_brake(
        call.given.site,
        reason=body.reason,
        lasts=timedelta(seconds=body.seconds),
        requested_by=await requester(call.request, body.requested_by),
    )
    return Response(status_code=HTTPStatus.NO_CONTENT)


async def _enqueue(call: ApiRequest[OfNode, None] | ApiRequest[OfResource, None], kind: str, name: str) -> Response:
    id_ = await call.backend.requests.enqueue(kind, name)
    return operation.json(Enqueued(kind=kind, id=id_), HTTPStatus.ACCEPTED)


async def list_holds(call: ApiRequest[HoldFilter, None]) -> Response:
    """List the resources that are held after the restore of a backup, with what differs from the outside services."""
    page = await call.backend.queries.holds(call.given.kind, call.given.site)
    return operation.json(Holds(now=page.now, holds=page.rows))


async def lift_holds(call: ApiRequest[NoParameters, Lift]) -> Response:
    """Lift holds after the restore of a backup. Without a choice, resources with a difference or a live workflow stay
    held."""
    by = await requester(call.request, call.body.requested_by)
    lifted = await call.backend.requests.lift_holds(msgspec.structs.replace(call.body, requested_by=by))
    return operation.json(LiftedHolds(resources=lifted))


async def foresee(call: ApiRequest[NoParameters, Foreseeing]) -> Response:
    """Ask how the handlers would answer intents now. farrier submits nothing. A controller asks the handler, and
    discards its decision. The verdict `depends` means that only the intent itself can find out, because its answer
    needs a reading or waits."""
    asked = [
        IntentRequest(resource=each.resource, action=each.action, params=each.params) for each in call.body.intents
    ]
    patience = timedelta(seconds=call.body.seconds)
    return operation.json(ForeseenAnswers(answers=await call.backend.requests.foresee(call.body.kind, asked, patience)))


_ENQUEUED = {202: ResponseType(what="The resource is enqueued.", body=Enqueued)}

OPERATIONS = [
    reads("/breaches", list_breaches, "The nodes and other resources above a limit.", Breaches, given=narrowed(Nodes)),
    reads("/controllers", list_controllers, "The controllers.", ShardOwnership),
    reads("/tasks", list_tasks, "Tasks.", Tasks, given=TaskFilter),
    reads("/figures", show_figures, "The figures.", Figures),
    reads("/brakes", list_brakes, "The brakes.", Brakes),
    Operation(
        path="/nodes/{node}/enqueue",
        method="POST",
        respond=enqueue_node,
        given=OfNode,
        scope=Scope.INTENT,
        answers=_ENQUEUED,
    ),
    Operation(
        path="/resources/{kind}/{name}/enqueue",
        method="POST",
        respond=enqueue,
        given=OfResource,
        scope=Scope.INTENT,
        answers=_ENQUEUED,
    ),
    Operation(
        path="/foreseen",
        method="POST",
        respond=foresee,
        body=Foreseeing,
        answers={
            200: ResponseType(what="The answers.", body=ForeseenAnswers),
            404: refusal("A resource does not exist."),
        },
    ),
    reads("/restore-holds", list_holds, "The held resources.", Holds, given=HoldFilter),
    Operation(
        path="/restore-holds/lift",
        method="POST",
        respond=lift_holds,
        body=Lift,
        scope=Scope.INTENT,
        answers={
            200: ResponseType(what="The selected resources.", body=LiftedHolds),
            404: refusal("A named resource is not held."),
        },
    ),
    Operation(
        path="/sites/{site}/brake-lift",
        method="POST",
        respond=lift_brake,
        given=OfSite,
        body=BrakeLift,
        scope=Scope.INTENT,
        answers={
            204: ResponseType(what="The brake is lifted."),
            409: refusal("The brake of the site holds no node."),
        },
    ),
]
