"""The pages that submit an action for many nodes: a preview with the form, and the progress of a run.

They have the selectors and limits of the command line: the filters of the inventory or chosen nodes, a limit of the
nodes in progress, a status to wait for, and a time limit for each node.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from hashlib import sha256
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

import msgspec
from starlette.background import BackgroundTask
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from farrier.bulk import dry_runs
from farrier.bulk import nodes as of_nodes
from farrier.bulk.run import Following, Target
from farrier.clock import wall
from farrier.model import duration
from farrier.model.api_token import Scope
from farrier.model.intents import actions, param_values, requests
from farrier.model.intents.actions import ACTIONS, Action
from farrier.model.intents.selection import is_id
from farrier.model.node import detail_changes
from farrier.model.node.layers import NODE, NodeStatus
from farrier.model.views.nodes import NodeFilter, NodeView
from farrier.model.views.responses import MOST_ROWS
from farrier.web.pages import forms, lists
from farrier.web.pages.runs import PATH as RUNS
from farrier.web.pages.runs import BulkPlan, BulkRun, Permitted, runs_of
from farrier.web.server.access import authorize, authorize_again
from farrier.web.server.backend import Backend, backend_of

ACT = "/act"
PICKED = "picked"
"""The value of `which` if the request names its nodes. Otherwise, the filter of the inventory selects the nodes."""
LIVE_SECONDS = 2
# Parameters of actions have underscores, so the form's own fields have hyphens.
_KEY, _SELECTED, _MOST, _UNTIL, _TIMEOUT, _CHANGES = (
    "form-key",
    "form-selected",
    "max-in-flight",
    "wait-until",
    "time-limit",
    "changes-of-details",
)
_DRY_RUN = "dry-run"
_PATIENCE = "60s"
# How many rows of refusals a page shows.
_SHOWN = 100


class BulkForm(msgspec.Struct, frozen=True, kw_only=True):
    """The input of the form, checked: the parameters for each node, and how the nodes are followed."""

    params: Callable[[NodeView], Mapping[str, Any]]
    following: Following


async def act(request: Request) -> Response:
    """GET and POST /act?action=…&which=…: the filter of the inventory, or `pick=ID` for each chosen node."""
    backend = backend_of(request)
    client, action = await authorize(request, Scope.INTENT), _action(request)
    nodes = await _nodes(request, backend)
    targets = [of_nodes.target(action, node) for node in nodes]
    if request.method != "POST":
        targets = await dry_runs.previewed(backend.requests, NODE, action, actions.rules(action), targets)
        given = {_KEY: request.query_params.get("key", "")}
        return _form(request, action, targets, given, "" if nodes else "no node is selected")
    given = await forms.submitted(request)
    if runs_of(request).is_current(given.get(_KEY, "")):  # the browser sent the form twice
        return RedirectResponse(f"{RUNS}/{given[_KEY]}", HTTPStatus.SEE_OTHER)
    if given.get(_SELECTED) != _digest(targets):
        problem = "other nodes are selected now than when this page was opened; check the selection and submit again"
        return _form(request, action, targets, given, problem, HTTPStatus.CONFLICT)
    try:
        order = _order(action, given)
    except ValueError as wrong:
        return _form(request, action, targets, given, str(wrong), HTTPStatus.BAD_REQUEST)
    run = _run(request, client, action, nodes, order, given)
    if _DRY_RUN in given:
        told = {each.id: each for each in await dry_runs.of_targets(backend.requests, run.operations, run.plan.targets)}
        answered = [told.get(each.id, each) for each in targets]
        return _form(request, action, answered, given, "", HTTPStatus.OK)
    runs_of(request).begin(run)
    return RedirectResponse(f"{RUNS}/{run.plan.key}", HTTPStatus.SEE_OTHER, background=BackgroundTask(run.work))


def _action(request: Request) -> Action:
    given = request.query_params.get("action", "")
    try:
        return Action(given)
    except ValueError:
        raise HTTPException(
            HTTPStatus.BAD_REQUEST, f"action must be one of {', '.join(Action)}, not {given!r}"
        ) from None


async def _nodes(request: Request, backend: Backend) -> tuple[NodeView, ...]:
    """Return the selected nodes by name."""
    wanted = _wanted(request)
    if wanted is None:
        return ()
    found: list[NodeView] = []
    full = True
    while full:
        page = await backend.queries.inventory(wanted, after=found[-1].name if found else "", limit=MOST_ROWS)
        found += page.rows
        full = len(page.rows) == MOST_ROWS
    return tuple(found)


def _wanted(request: Request) -> NodeFilter | None:
    """Return the filter of the selected nodes; None if no node was chosen."""
    if request.query_params.get("which") != PICKED:
        return lists.selection(request)
    picked = tuple(request.query_params.getlist("pick"))
    if not all(map(is_id, picked)):
        raise HTTPException(HTTPStatus.BAD_REQUEST, f"pick must be the ID of a node, not {', '.join(picked)!r}")
    return NodeFilter(names=picked) if picked else None


def _digest(nodes: Sequence[Target]) -> str:
    """Return a text that differs for other nodes."""
    return sha256(",".join(str(node.id) for node in nodes).encode()).hexdigest()


def _order(action: Action, given: Mapping[str, str]) -> BulkForm:
    """Return the checked input. Raises ValueError."""
    return BulkForm(params=_params(action, given), following=_following(given))


def _params(action: Action, given: Mapping[str, str]) -> Callable[[NodeView], Mapping[str, Any]]:
    if action is Action.SET:
        changes = _changes(given.get(_CHANGES, ""))
        return lambda node: detail_changes.params(changes, node)
    rules = actions.rules(action)
    texts = {name: value.strip() for name, value in given.items() if name in rules.fields and value.strip()}
    params = param_values.typed(rules.fields, texts)
    for field, fault in param_values.faults(rules, params):
        raise ValueError(f"{field} {fault}".strip())
    return lambda _: params


def _changes(text: str) -> detail_changes.DetailChanges:
    """Parse changes of details, one on each line. Raises ValueError."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        raise ValueError("nothing to change; give for example site=ams1 or label=row=b")
    for line in lines:
        if line.partition("=")[0] not in detail_changes.WORDS:
            raise ValueError(f"expected {' or '.join(f'{word}=…' for word in detail_changes.WORDS)}, got {line!r}")
    return detail_changes.read(lines)


def _following(given: Mapping[str, str]) -> Following:
    most, until = given.get(_MOST, "").strip(), given.get(_UNTIL, "").strip() or None
    if most and not (param_values.WHOLE.fullmatch(most) and param_values.number(most) > 0):
        raise ValueError(f"at most in progress: expected a whole number of at least 1, got {most!r}")
    if until is not None and until not in set(NodeStatus):
        raise ValueError(f"wait until: expected one of {', '.join(NodeStatus)}, got {until!r}")
    timeout = given.get(_TIMEOUT, "").strip() or _PATIENCE
    patience = duration.parse(timeout)
    if patience <= timedelta(0):
        raise ValueError(f"time limit: expected a duration of more than 0s, got {timeout!r}")
    number = param_values.number(most) if most else None
    return Following(most=number, waits=True, until=until, patience=patience, timeout=timeout)


def _run(
    request: Request, client: str, action: Action, nodes: Sequence[NodeView], order: BulkForm, given: Mapping[str, str]
) -> BulkRun:
    backend, key = backend_of(request), given.get(_KEY) or secrets.token_urlsafe(9)
    params = {node.id: order.params(node) for node in nodes}
    if action is Action.SET:  # nodes that have these values already need no intent
        nodes = [node for node in nodes if params[node.id]]
    plan = BulkPlan(
        key=key,
        action=action.value,
        targets=[of_nodes.target(action, node) for node in nodes],
        following=order.following,
        begun_by=client,
        begun_at=wall(),
        repeat=urlencode([*(pair for pair in request.query_params.multi_items() if pair[0] != "key"), ("key", key)]),
    )
    door = Permitted(backend.requests, lambda: authorize_again(request, Scope.INTENT))
    intent = requests.IntentRequest(resource="", action=action, key=f"web-{key}", requested_by=client)
    until = order.following.until
    return BulkRun(plan, of_nodes.operations(door, backend.queries, intent, params.__getitem__, until))


def _form(
    request: Request,
    action: Action,
    targets: Sequence[Target],
    given: Mapping[str, str],
    problem: str,
    status: HTTPStatus = HTTPStatus.OK,
) -> Response:
    spec, is_dry_run = ACTIONS[action], _DRY_RUN in given and not problem
    values = {
        "at": "nodes",
        "action": action.value,
        "description": spec.description,
        "fields": {} if action is Action.SET else actions.rules(action).fields,
        "changes_field": _CHANGES if action is Action.SET else None,
        "most_field": _MOST,
        "until_field": _UNTIL,
        "timeout_field": _TIMEOUT,
        "patience": _PATIENCE,
        "dry_run_field": _DRY_RUN,
        "is_dry_run": is_dry_run,
        "statuses": tuple(map(str, NodeStatus)),
        "given": given,
        "problem": problem,
        "total": len(targets),
        "states": Counter(each.state for each in targets).most_common(),
        "who": dry_runs.who(targets),
        "note": dry_runs.note(targets, actions.rules(action), is_dry_run=is_dry_run),
        "refused": [each for each in targets if each.refusal],
        "delayed": [each for each in targets if each.delay],
        "names": [each.name for each in targets[:_SHOWN]],
        "shown": _SHOWN,
        "back": f"/?{urlencode(_filters(request))}",
        "hidden": {_KEY: given.get(_KEY) or secrets.token_urlsafe(9), _SELECTED: _digest(targets)},
    }
    return forms.page(request, "many.html", values, status)


def _filters(request: Request) -> list[tuple[str, str]]:
    """Return the parameters of the inventory from which the operator came."""
    own = {"action", "which", "pick", "key"}
    return [(name, value) for name, value in request.query_params.multi_items() if name not in own]


async def run(request: Request) -> Response:
    """GET /runs/{key}: the progress. POST: submit no more intents."""
    found = runs_of(request).of(request.path_params["key"])
    if request.method == "POST":
        await authorize(request, Scope.INTENT)
        await forms.submitted(request)
        found.stop()
        return RedirectResponse(f"{RUNS}/{found.plan.key}", HTTPStatus.SEE_OTHER)
    values = {
        "at": "nodes",
        "every": LIVE_SECONDS,
        "now": wall(),
        "run": found,
        "plan": found.plan,
        "failed": found.failed[:_SHOWN],
        "more": max(len(found.failed) - _SHOWN, 0),
        "repeat": f"{ACT}?{found.plan.repeat}",
        "hidden": {},
    }
    return forms.page(request, "run.html", values)


_METHODS = ["GET", "POST"]

ROUTES = [Route(ACT, act, methods=_METHODS), Route(f"{RUNS}/{{key}}", run, methods=_METHODS)]
