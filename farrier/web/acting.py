"""The buttons for the actions of a resource, and the page that asks for the parameters of an action and submits an
intent.

A page offers only actions that the model accepts in the present state, and only to a client that may submit intents.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from datetime import timedelta
from http import HTTPStatus

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from farrier.bulk import foreseen as asking
from farrier.errors import MalformedRequest, RefusedByModel
from farrier.model import advice, foreseen, param_texts, requests
from farrier.model.acceptance import Allowed, Refused
from farrier.model.actions import ACTIONS, ANSWERED_WHILE_PAUSED, Action
from farrier.model.api_token import Scope
from farrier.model.edges import NODE
from farrier.model.kinds import CREATE
from farrier.model.requests import IntentStatus
from farrier.model.resource_views import ActionView, KindView, ResourceView
from farrier.model.views import NodeDetail
from farrier.web import forms, render
from farrier.web.access import authorize
from farrier.web.backend import backend_of
from farrier.web.refusals import is_fault

_KEY, _NAME = "form-key", "form-name"
# A controller answers within milliseconds. If an answer takes longer, the page of the resource shows it.
_PATIENCE = timedelta(seconds=3)


class Choice(msgspec.Struct, frozen=True):
    """An action that the client can submit, and the path of its page."""

    action: str
    description: str
    path: str


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """The intent that a form submits. `id`, `name` and `state` are empty if the intent creates the resource. `refusal`
    is the reason why the model does not accept the action now; empty if it does."""

    kind: str
    action: ActionView
    back: str
    id: str = ""
    name: str = ""
    state: str = ""
    refusal: str = ""


async def client_of(request: Request) -> str | None:
    """Return the name of the client that submits intents with this request. None if the client may not submit
    intents."""
    try:
        return await authorize(request, Scope.INTENT)
    except HTTPException:
        return None


async def of_node(request: Request, node: NodeDetail) -> list[Choice]:
    """Return the actions that the node accepts now. Empty if the client may not submit intents."""
    if await client_of(request) is None:
        return []
    path = render.path_of(NODE, node.name)
    possible = [action for action in Action if advice.is_accepted(action, node) and _has_effect(action, node)]
    return [
        Choice(action.value, ACTIONS[action].description, f"{path}/act/{action}")
        for action in await asking.accepted(backend_of(request).requests, node, possible)
    ]


def _has_effect(action: Action, node: NodeDetail) -> bool:
    """Return whether the node would now answer an intent with this action. A paused node answers most actions only
    after its pause."""
    if node.paused is None:
        return action is not Action.UNPAUSE
    return action in ANSWERED_WHILE_PAUSED


async def of_resource(request: Request, resource: ResourceView) -> list[Choice]:
    """Return the actions that the resource accepts now. Empty if the client may not submit intents."""
    if await client_of(request) is None:
        return []
    kind = await _kind(request, resource.kind)
    path = render.path_of(resource.kind, resource.id)
    accepted = (each for each in kind.actions if isinstance(foreseen.of_resource(each, resource), Allowed))
    return [Choice(each.action, each.description, f"{path}/act/{each.action}") for each in accepted]


async def of_kind(request: Request, kind: str) -> str | None:
    """Return the path of the page that creates a resource of a kind. None if the client may not submit intents, or the
    kind has no such action."""
    if await client_of(request) is None:
        return None
    found = await _kind(request, kind)
    return f"/create/{kind}" if any(each.action == CREATE for each in found.actions) else None


async def act_on_node(request: Request) -> Response:
    """GET and POST /nodes/{name}/act/{action}"""
    found = await backend_of(request).queries.node(request.path_params["node"])
    (node,) = found.rows
    action = await _action(request, NODE, request.path_params["action"])
    asked = Asked(
        kind=NODE,
        action=action,
        back=render.path_of(NODE, node.name),
        id=str(node.id),
        name=node.name,
        state=node.status,
        refusal=_refusal(action, node),
    )
    return await _respond(request, asked)


def _refusal(spec: ActionView, node: NodeDetail) -> str:
    """Return the reason why the node does not accept the action now. Empty if the node accepts the action."""
    try:
        action = Action(spec.action)
    except ValueError:
        return f"this release of farrier has no action {spec.action}"
    answer = foreseen.by_table(action, node)
    if not isinstance(answer, Allowed):
        return answer.reason
    return "" if advice.is_accepted(action, node) else "the node is being deleted"


async def act_on_resource(request: Request) -> Response:
    """GET and POST /resources/{kind}/{name}/act/{action}"""
    path = request.path_params
    found = await backend_of(request).queries.resource(path["kind"], path["name"])
    shown = found.rows[0].resource
    action = await _action(request, shown.kind, path["action"])
    answer = foreseen.of_resource(action, shown)
    asked = Asked(
        kind=shown.kind,
        action=action,
        back=render.path_of(shown.kind, shown.id),
        id=str(shown.id),
        name=shown.name,
        state=shown.state,
        refusal=answer.reason if isinstance(answer, Refused) else "",
    )
    return await _respond(request, asked)


async def create(request: Request) -> Response:
    """GET and POST /create/{kind}"""
    kind = request.path_params["kind"]
    action = await _action(request, kind, CREATE, creates=True)
    return await _respond(request, Asked(kind=kind, action=action, back=f"/resources/{kind}"))


async def _action(request: Request, kind: str, name: str, *, creates: bool = False) -> ActionView:
    """Return the action `name` of a kind: with `creates`, the action that creates a resource, otherwise an action of
    existing resources. Raises HTTPException if the kind has no such action."""
    for each in (await _kind(request, kind)).actions:
        if each.action == name and (name == CREATE) is creates:
            return each
    raise HTTPException(HTTPStatus.NOT_FOUND, f"{kind} has no action {name!r}")


async def _kind(request: Request, name: str) -> KindView:
    """Return a registered kind. Raises HTTPException if no kind has this name."""
    for kind in await backend_of(request).queries.kinds(name, counted=False):
        return kind
    raise HTTPException(HTTPStatus.NOT_FOUND, f"no kind is named {name!r}")


async def _respond(request: Request, asked: Asked) -> Response:
    """Return the form or, after the form was submitted, the result."""
    client = await authorize(request, Scope.INTENT)
    if request.method != "POST":  # a link may fill in parameters
        return _page(request, asked, dict(request.query_params), asked.refusal)
    given = await forms.submitted(request)
    fields = asked.action.params.fields
    texts = {name: value.strip() for name, value in given.items() if name in fields and value.strip()}
    intent = requests.Request(
        kind=asked.kind,
        resource=asked.id or given.get(_NAME, "").strip(),
        action=asked.action.action,
        params=param_texts.typed(fields, texts),
        key=given.get(_KEY) or None,
        requested_by=client,
    )
    door = backend_of(request).requests
    try:
        answer = await door.answer(asked.kind, await door.ask(intent), _PATIENCE)
    except RefusedByModel as error:
        if is_fault(error):
            raise
        wrong = HTTPStatus.BAD_REQUEST if isinstance(error, MalformedRequest) else HTTPStatus.CONFLICT
        return _page(request, asked, given, f"{error.text}. {error.hint}".rstrip(". "), wrong)
    if answer is not None and answer.status != IntentStatus.ACCEPTED:
        return _page(request, asked, given, f"{answer.status}: {answer.reason}", HTTPStatus.CONFLICT)
    back = asked.back if asked.id else render.path_of(asked.kind, intent.resource)
    return RedirectResponse(f"{back}#intents-title", HTTPStatus.SEE_OTHER)


def _page(
    request: Request, asked: Asked, given: Mapping[str, str], problem: str, status: HTTPStatus = HTTPStatus.OK
) -> Response:
    values = {
        "at": "nodes" if asked.kind == NODE else "resources",
        "asked": asked,
        "given": given,
        "problem": problem,
        "hidden": {_KEY: secrets.token_urlsafe(16)},
        "name_field": _NAME,
    }
    return forms.page(request, "act.html", values, status)


_METHODS = ["GET", "POST"]

ROUTES = [
    Route("/nodes/{node}/act/{action}", act_on_node, methods=_METHODS),
    Route(f"/resources/{NODE}/{{node}}/act/{{action}}", act_on_node, methods=_METHODS),
    Route("/resources/{kind}/{name}/act/{action}", act_on_resource, methods=_METHODS),
    Route("/create/{kind}", create, methods=_METHODS),
]
