"""Work of operators over HTTP that is no intent: bootstrap tokens, the brake of a site, and runs of handlers."""

from __future__ import annotations

from datetime import timedelta
from http import HTTPStatus
from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.responses import Response

from farrier.model.api_token import Scope
from farrier.web import operation
from farrier.web.kind_path import of_a_kind
from farrier.web.operation import Answer, Call, Operation
from farrier.web.parameter_types import Kind, Name, OfNode

_LONGEST = timedelta(days=7)


class BootstrapToken(msgspec.Struct, frozen=True, kw_only=True):
    """A token with which the agent of a node enrols once. It is shown only here."""

    bootstrap_token: str


class OfSite(msgspec.Struct, frozen=True, kw_only=True):
    site: Annotated[str, Meta(description="Name of the site; `''` for nodes without a site.")]


class Unbrake(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Why the nodes of a site may leave service, and for how long."""

    reason: Annotated[str, Meta(min_length=1, max_length=1000)]
    seconds: Annotated[float, Meta(gt=0, le=_LONGEST.total_seconds())]
    requested_by: Annotated[str, Meta(min_length=1, max_length=255)]


class Lifted(msgspec.Struct, frozen=True, kw_only=True):
    """The brake of the site is lifted."""

    site: str
    seconds: float


class OfResource(msgspec.Struct, frozen=True, kw_only=True):
    kind: Kind
    name: Name


class Enqueued(msgspec.Struct, frozen=True, kw_only=True):
    """The handler of the resource runs as soon as possible."""

    id: int


async def issue(call: Call[OfNode, None]) -> Response:
    """Issue a bootstrap token for the agent of a node. Earlier unused tokens of the node become invalid."""
    token = await call.backend.requests.issue_bootstrap(call.given.node, call.backend.bootstrap_ttl)
    return operation.json(BootstrapToken(bootstrap_token=token), HTTPStatus.CREATED)


async def unbrake(call: Call[OfSite, Unbrake]) -> Response:
    """Let any number of nodes of a site leave service for some time. Refused while the brake holds no node."""
    body, site = call.body, call.given.site
    await call.backend.requests.lift_brake(
        site, reason=body.reason, lasts=timedelta(seconds=body.seconds), requested_by=body.requested_by
    )
    return operation.json(Lifted(site=site, seconds=body.seconds))


@of_a_kind
async def enqueue(call: Call[OfResource, None]) -> Response:
    """Make the handler of a resource run as soon as possible."""
    id_ = await call.backend.requests.enqueue(call.given.kind, call.given.name)
    return operation.json(Enqueued(id=id_), HTTPStatus.ACCEPTED)


OPERATIONS = [
    Operation(
        path="/nodes/{node}/bootstrap-token",
        method="POST",
        respond=issue,
        given=OfNode,
        scope=Scope.REGISTER,
        answers={201: Answer(what="The token.", body=BootstrapToken)},
    ),
    Operation(
        path="/sites/{site}/unbrake",
        method="POST",
        respond=unbrake,
        given=OfSite,
        body=Unbrake,
        scope=Scope.INTENT,
        answers={200: Answer(what="The brake is lifted.", body=Lifted)},
    ),
    Operation(
        path="/resources/{kind}/{name}/enqueue",
        method="POST",
        respond=enqueue,
        given=OfResource,
        scope=Scope.INTENT,
        answers={202: Answer(what="The resource is enqueued.", body=Enqueued)},
    ),
]
