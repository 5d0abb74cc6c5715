"""The buttons for the actions of a resource, and the page that asks for the parameters of an action and submits an
intent.

A page offers only actions that the model accepts in the present state, and only to a client that may submit intents.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from datetime import timedelta
from http import HTTPStatus

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from farrier.bulk import dry_runs as asking
from farrier.errors import MalformedRequest, RefusedByModel
from farrier.model.advice import choice
from farrier.model.api_token import Scope
from farrier.model.intents import acceptance, actions, param_values, preview, requests
from farrier.model.intents.acceptance import Allowed, Later, Refused
from farrier.model.intents.actions import ACTIONS, ANSWERED_WHILE_PAUSED, Action
from farrier.model.intents.preview import PreviewVerdict
from farrier.model.intents.requests import IntentStatus
from farrier.model.kinds.spec import CREATE
from farrier.model.node.layers import NODE
from farrier.model.views.nodes import NodeDetail
from farrier.model.views.resources import ActionView, KindView, ResourceView
from farrier.web.pages import forms, render
from farrier.web.server.access import authorize
from farrier.web.server.backend import backend_of
from farrier.web.server.refusals import is_fault

_KEY, _NAME, _DRY_RUN = "form-key", "form-name", "dry-run"
# A controller answers within milliseconds. If an answer takes longer, the page of the resource shows it.
_PATIENCE = timedelta(seconds=3)


class Choice(msgspec.Struct, frozen=True):
    """An action that the client can submit, and the path of its page."""

    action: str
    description: str
    path: str


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """The intent that a form submits. `id`, `name` and `state` are empty if the intent creates the resource. `refusal`
    is the reason why the intent would be rejected now, whatever its parameters are; empty if it would not be. `note`
    says on what the answer depends, and that no controller gave it."""

    kind: str
    action: ActionView
    back: str
    id: str = ""
    name: str = ""
    state: str = ""
    refusal: str = ""
    note: str = ""


async def client_of(request: Request) -> str | None:
    """Return the name of the client of this request; None if it may not submit intents."""
    try:
        return await authorize(request, Scope.INTENT)
    except HTTPException:
        return None


async def of_node(request: Request, node: NodeDetail) -> list[Choice]:
    """Return the actions that the node accepts now. Empty if the client may not submit intents."""
    if await client_of(request) is None:
        return []
    path = render.path_of(NODE, node.name)
    possible = [action for action in Action if choice.is_accepted(action, node) and _has_effect(action, node)]
    wanted = [asking.Possibility(node.id, action, actions.rules(action)) for action in possible]
    return [
        Choice(action, ACTIONS[Action(action)].description, f"{path}/act/{action}")
        for action in await _not_rejected(request, NODE, wanted)
    ]


async def _not_rejected(request: Request, kind: str, wanted: Sequence[asking.Possibility]) -> list[str]:
    """Return the actions that no controller would reject now."""
    answers = await asking.possible(backend_of(request).requests, kind, wanted)
    return [
        each.action
        for each, answer in zip(wanted, answers, strict=True)
        if answer is None or answer.verdict is not PreviewVerdict.REJECTED
    ]


def _has_effect(action: Action, node: NodeDetail) -> bool:
    """Return whether the node would now answer this action: a paused node answers most only after its pause."""
    if node.paused is None:
        return action is not Action.UNPAUSE
    return action in ANSWERED_WHILE_PAUSED


async def of_resource(request: Request, resource: ResourceView) -> list[Choice]:
    """Return the actions that the resource accepts now. Empty if the client may not submit intents."""
    if await client_of(request) is None:
        return []
    kind = await _kind(request, resource.kind)
    path = render.path_of(resource.kind, resource.id)
    possible = [each for each in kind.actions if not isinstance(preview.of_resource(each, resource), Refused)]
    wanted = [asking.Possibility(resource.id, each.action, each.params) for each in possible]
    accepted = await _not_rejected(request, resource.kind, wanted)
    return [
        Choice(each.action, each.description, f"{path}/act/{each.action}")
        for each in possible
        if each.action in accepted
    ]


async def of_kind(request: Request, kind: str) -> str | None:
    """Return the path of the page that creates a resource of a kind; None if the client or the kind cannot."""
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
    )
    return await _respond(request, await _previewed(request, asked, _by_table(action, node)))


def _by_table(spec: ActionView, node: NodeDetail) -> acceptance.Answer:
    """Return the expected answer of the node if no controller answers."""
    try:
        action = Action(spec.action)
    except ValueError:
        return Refused(f"this release of farrier has no action {spec.action}")
    answer = preview.of_node(action, node)
    if isinstance(answer, Allowed) and not choice.is_accepted(action, node):
        return Refused("the node is being deleted")
    return answer


async def _previewed(request: Request, asked: Asked, expected: acceptance.Answer) -> Asked:
    """Return what is asked with the answer that a controller would give now, or else with the expected answer."""
    if request.method == "POST":  # a controller answers the intent itself, or the dry run
        return asked
    refusal = expected.reason if isinstance(expected, Refused) else ""
    question = asking.Possibility(int(asked.id), asked.action.action, asked.action.params, bool(refusal))
    (answer,) = await asking.possible(backend_of(request).requests, asked.kind, [question])
    if answer is not None:
        is_rejected = answer.verdict is PreviewVerdict.REJECTED
        note = answer.reason if answer.verdict is PreviewVerdict.DEPENDS else ""
        return msgspec.structs.replace(asked, refusal=answer.reason if is_rejected else "", note=note)
    untold = "" if question.is_open else asking.UNTOLD
    delay = expected.reason if isinstance(expected, Later) else ""
    return msgspec.structs.replace(asked, refusal=refusal, note=". ".join(filter(None, (delay, untold))))


async def act_on_resource(request: Request) -> Response:
    """GET and POST /resources/{kind}/{name}/act/{action}"""
    path = request.path_params
    found = await backend_of(request).queries.resource(path["kind"], path["name"])
    shown = found.rows[0].resource
    action = await _action(request, shown.kind, path["action"])
    asked = Asked(
        kind=shown.kind,
        action=action,
        back=render.path_of(shown.kind, shown.id),
        id=str(shown.id),
        name=shown.name,
        state=shown.state,
    )
    return await _respond(request, await _previewed(request, asked, preview.of_resource(action, shown)))


async def create(request: Request) -> Response:
    """GET and POST /create/{kind}"""
    kind = request.path_params["kind"]
    action = await _action(request, kind, CREATE, creates=True)
    return await _respond(request, Asked(kind=kind, action=action, back=f"/resources/{kind}"))


async def _action(request: Request, kind: str, name: str, *, creates: bool = False) -> ActionView:
    """Return an action of a kind: with `creates`, the one that creates a resource, otherwise one of existing resources.
    Raises HTTPException if the kind has no such action."""
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
    intent = requests.IntentRequest(
        kind=asked.kind,
        resource=asked.id or given.get(_NAME, "").strip(),
        action=asked.action.action,
        params=param_values.typed(fields, texts),
        key=given.get(_KEY) or None,
        requested_by=client,
    )
    if _DRY_RUN in given:
        return await _dry_run(request, asked, intent, given)
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


async def _dry_run(
    request: Request, asked: Asked, intent: requests.IntentRequest, given: Mapping[str, str]
) -> Response:
    """Return the form with the answer that a controller would give to this intent now."""
    (answer,) = await asking.told(backend_of(request).requests, [intent], asking.DRY_RUN)
    if answer is None:
        note = "no controller answered, so the answer is not known"
    else:
        note = f"would be {answer.verdict}" if answer.verdict is not PreviewVerdict.DEPENDS else "the answer depends"
        note = f"{note}: {answer.reason}" if answer.reason else note
    return _page(request, msgspec.structs.replace(asked, note=f"nothing was submitted; {note}"), given, "")


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
        "dry_run_field": _DRY_RUN,
    }
    return forms.page(request, "act.html", values, status)


_METHODS = ["GET", "POST"]

ROUTES = [
    Route("/nodes/{node}/act/{action}", act_on_node, methods=_METHODS),
    Route(f"/resources/{NODE}/{{node}}/act/{{action}}", act_on_node, methods=_METHODS),
    Route("/resources/{kind}/{name}/act/{action}", act_on_resource, methods=_METHODS),
    Route("/create/{kind}", create, methods=_METHODS),
]
