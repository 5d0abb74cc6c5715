"""The API's operations on intents of nodes and other kinds: submit, show, wait for the answer, and list.

The status code of a POST is the answer: 200 accepted, 202 not answered yet, 409 rejected or superseded. The status code
of a GET only shows whether the intent exists; the body contains the answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from http import HTTPStatus
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta
from starlette.responses import Response

from farrier.model.api_token import Scope
from farrier.model.intents import requests as asked
from farrier.model.intents.actions import ACTIONS, API_MIN
from farrier.model.node.layers import NODE
from farrier.model.views.intents import IntentView, WantedIntents
from farrier.model.views.responses import Intents
from farrier.web.api import operation
from farrier.web.api.operation import ApiRequest, Operation, ResponseType, refusal
from farrier.web.api.parameter_types import ApiVersion, Id, Limit, Name, Wait
from farrier.web.server.access import requester
from farrier.web.server.refusals import RefusedRequest

Key: TypeAlias = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=255,
        description="Idempotency key: an intent that is sent twice with the same key is stored once.",
    ),
]
Client: TypeAlias = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=255,
        description="Name of the client. Default: the name of the token. Another name requires the scope `admin`.",
    ),
]


class Ask(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An intent for a node."""

    node: Name
    action: str
    params: Mapping[str, Any] = {}
    idempotency_key: Key | None = None
    requested_by: Client | None = None


class AskResource(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An intent for a resource of a registered kind. `GET /resources` lists the kinds, their actions and parameters."""

    kind: str
    resource: Name
    action: str
    params: Mapping[str, Any] = {}
    idempotency_key: Key | None = None
    requested_by: Client | None = None


def _described() -> Any:
    """Return a union of structs, one for each action of a node. `action` distinguishes them."""
    more = [("idempotency_key", Key | None, None), ("requested_by", Client | None, None)]
    described: Any = None
    for action, spec in ACTIONS.items():
        struct = msgspec.defstruct(
            f"Ask{action.title().replace('_', '')}",
            [("node", Name), ("params", spec.params, msgspec.field(default_factory=dict)), *more],
            tag_field="action",
            tag=str(action),
            forbid_unknown_fields=True,
            kw_only=True,
        )
        described = struct if described is None else described | struct
    return described


class AwaitAnswer(msgspec.Struct, frozen=True, kw_only=True):
    wait: Wait = 0


class Submitting(AwaitAnswer, frozen=True, kw_only=True):
    api_version: ApiVersion = msgspec.field(default=API_MIN, name="Farrier-Api-Version")


class Waited(AwaitAnswer, frozen=True, kw_only=True):
    intent: Id


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """Which intents to return. If a parameter is given several times, an intent has to match one of the values."""

    before: Annotated[
        Id | None, Meta(description="Return only intents before this ID. For the next page, use `next` of this page.")
    ] = None
    limit: Limit = 100
    status: Annotated[
        tuple[asked.IntentStatus, ...], Meta(description="Return only intents with one of these statuses.")
    ] = ()
    action: Annotated[tuple[str, ...], Meta(description="Return only intents with one of these actions.")] = ()
    requested_by: Annotated[tuple[str, ...], Meta(description="Return only intents of these clients.")] = ()


class ListedOfNodes(Listed, frozen=True, kw_only=True):
    node: Annotated[str | None, Meta(description="Return only intents of this node: its name or ID.")] = None


class ListedOfResources(Listed, frozen=True, kw_only=True):
    kind: Annotated[str | None, Meta(description="Return only intents of this kind.")] = None
    resource: Annotated[str | None, Meta(description="Return only intents of this resource. Requires `kind`.")] = None


async def submit(call: ApiRequest[Submitting, Ask]) -> Response:
    """Submit an intent for a node. Without `wait`, farrier responds as soon as the intent is stored."""
    return await _submit(call, NODE, call.body.node)


async def submit_for_resource(call: ApiRequest[Submitting, AskResource]) -> Response:
    """Submit an intent for a resource of a registered kind. The action `create` creates the resource, and is answered
    at once."""
    return await _submit(call, call.body.kind, call.body.resource)


async def _submit(call: ApiRequest[Submitting, Any], kind: str, resource: str) -> Response:
    body = call.body
    intent = await call.backend.requests.ask(
        asked.IntentRequest(
            kind=kind,
            resource=resource,
            action=body.action,
            params=body.params,
            key=body.idempotency_key,
            requested_by=await requester(call.request, body.requested_by),
            api_version=call.given.api_version,
        )
    )
    return answered(await awaited(call, kind, intent))


async def show(call: ApiRequest[Waited, None]) -> Response:
    """Show an intent for a node. With `wait`, farrier responds when the intent is answered, or at the latest after
    `wait` seconds."""
    return operation.json(await awaited(call, NODE, call.given.intent))


async def show_of_resource(call: ApiRequest[Waited, None]) -> Response:
    """Show an intent for a resource of a registered kind, as `/intents/{intent}` does for a node."""
    return operation.json(await awaited(call, None, call.given.intent))


async def list_of_nodes(call: ApiRequest[ListedOfNodes, None]) -> Response:
    """List intents of nodes, newest first."""
    return await _list(call, NODE, call.given.node)


async def list_of_resources(call: ApiRequest[ListedOfResources, None]) -> Response:
    """List intents of resources of registered kinds, newest first."""
    return await _list(call, call.given.kind, call.given.resource)


async def _list(call: ApiRequest[Any, None], kind: str | None, resource: str | None) -> Response:
    given: Listed = call.given
    wanted = WantedIntents(
        resource=resource, statuses=given.status, actions=given.action, requested_by=given.requested_by
    )
    page = await call.backend.queries.intents(kind, wanted, before=given.before, limit=given.limit)
    return operation.json(Intents(now=page.now, intents=page.rows, next=page.following))


async def awaited(call: ApiRequest[Any, Any], kind: str | None, intent: int) -> IntentView:
    """Return an intent. If the client requested it, wait for the answer first."""
    queries = call.backend.queries
    (view,) = (await queries.intent(kind, intent)).rows
    if view.status == asked.IntentStatus.PENDING and call.given.wait:
        await call.backend.requests.answer(view.kind, intent, timedelta(seconds=call.given.wait))
        (view,) = (await queries.intent(kind, intent)).rows
    return view


def answered(intent: IntentView) -> Response:
    """Return the response to the client that submitted the intent. Raises Refused if it was not accepted."""
    path = "intents" if intent.kind == NODE else "resource-intents"
    headers = {"Location": f"/api/v1/{path}/{intent.id}"}
    if intent.status == asked.IntentStatus.PENDING:
        return operation.json(intent, HTTPStatus.ACCEPTED, headers)
    if intent.status == asked.IntentStatus.ACCEPTED:
        return operation.json(intent, HTTPStatus.OK, headers)
    raise not_accepted(intent)


def not_accepted(intent: IntentView) -> RefusedRequest:
    """Return the error for an intent that was rejected or superseded."""
    what = f"{intent.action} of {intent.kind.replace('_', ' ')} {intent.name}"
    hint = (
        "remove the cause that the reason names, or wait until the resource is in a state that "
        "accepts the action; then submit a new intent"
    )
    if intent.status == asked.IntentStatus.SUPERSEDED:
        hint = "a newer intent replaced this intent; no action is required"
    detail = f"intent {intent.id} ({what}) was {intent.status}: {intent.reason or 'no reason is recorded'}"
    return RefusedRequest(HTTPStatus.CONFLICT, detail, hint=hint, intent=intent)


_LOCATION = {"Location": "Path of the intent."}
NOT_ACCEPTED = refusal("The intent was rejected or superseded. The field `intent` contains it.")
ANSWERED = {
    200: ResponseType(
        what="The intent is accepted: farrier has begun or completed it.", body=IntentView, headers=_LOCATION
    ),
    202: ResponseType(what="The intent is stored and has no answer yet.", body=IntentView, headers=_LOCATION),
    409: NOT_ACCEPTED,
}
_SHOWN = {200: ResponseType(what="The intent, with any status.", body=IntentView)}
_LISTED = {200: ResponseType(what="A page of intents.", body=Intents)}

OPERATIONS = [
    Operation(path="/intents", respond=list_of_nodes, given=ListedOfNodes, answers=_LISTED),
    Operation(
        path="/intents",
        method="POST",
        respond=submit,
        given=Submitting,
        body=Ask,
        described=_described(),
        scope=Scope.INTENT,
        answers=ANSWERED,
    ),
    Operation(path="/intents/{intent}", respond=show, given=Waited, answers=_SHOWN),
    Operation(path="/resource-intents", respond=list_of_resources, given=ListedOfResources, answers=_LISTED),
    Operation(
        path="/resource-intents",
        method="POST",
        respond=submit_for_resource,
        given=Submitting,
        body=AskResource,
        scope=Scope.INTENT,
        answers=ANSWERED,
    ),
    Operation(path="/resource-intents/{intent}", respond=show_of_resource, given=Waited, answers=_SHOWN),
]
