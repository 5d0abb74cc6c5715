"""The API's operations on nodes: list, show (with the version as ETag), register one or many, and change.

To change a node, the API submits the intent `set`. With If-Match, the intent contains the version, so the node's
handler rejects the intent if the node has changed in the meantime.
"""

from __future__ import annotations

import secrets
from collections import Counter
from http import HTTPStatus
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta
from starlette.responses import Response

from farrier.bulk import dry_runs
from farrier.model.advice.explanation import NextAction
from farrier.model.api_token import Scope
from farrier.model.intents import params
from farrier.model.intents import requests as asked
from farrier.model.intents.actions import API_MIN, Action
from farrier.model.intents.requests import IntentStatus
from farrier.model.machine import bootstrap as bootstraps
from farrier.model.node import details
from farrier.model.node.layers import NODE
from farrier.model.views.nodes import NodeDetail
from farrier.model.views.responses import (
    MOST_ROWS,
    Bootstrap,
    ClockView,
    EvidenceList,
    NodeList,
    RegisteredNodes,
    ShownNode,
)
from farrier.web.api import intents, operation
from farrier.web.api.operation import ApiRequest, Operation, ResponseType, reads, refusal
from farrier.web.api.parameter_types import ApiVersion, Limit, Nodes, OfNode, Wait, narrowed
from farrier.web.server.access import requester
from farrier.web.server.refusals import RefusedRequest

# This is enough for a thousand registrations of half a kilobyte each, with labels.
_LARGEST_REGISTRATION = 2 * 1024 * 1024
# The node's next run answers the intent. This run begins at once, unless the fleet is busy.
_WAIT_SECONDS = 10


class NodePage(Nodes, frozen=True, kw_only=True):
    after: Annotated[
        str, Meta(description="Return only nodes after this name. For the next page, use `next` of this page.")
    ] = ""
    limit: Limit = 100


class ReadNode(OfNode, frozen=True, kw_only=True):
    if_none_match: Annotated[
        str | None,
        Meta(
            description="ETag of an earlier response. If the node still has this version, the response has the "
            "status 304."
        ),
    ] = msgspec.field(default=None, name="If-None-Match")


class Changing(OfNode, frozen=True, kw_only=True):
    wait: Wait = _WAIT_SECONDS
    if_match: Annotated[
        str | None,
        Meta(description="ETag of the node. farrier makes the change only if the node still has this version."),
    ] = msgspec.field(default=None, name="If-Match")
    api_version: ApiVersion = msgspec.field(default=API_MIN, name="Farrier-Api-Version")


class EvidencePage(OfNode, frozen=True, kw_only=True):
    limit: Limit = 100


class Registering(msgspec.Struct, frozen=True, kw_only=True):
    api_version: ApiVersion = msgspec.field(default=API_MIN, name="Farrier-Api-Version")


class _NewNode(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A node to register. With `bootstrap`, the response contains a token, which the node's agent can use once."""

    name: Annotated[
        str,
        Meta(
            max_length=253,
            pattern=r"\A[A-Za-z0-9._-]*[A-Za-z._-][A-Za-z0-9._-]*\Z",
            extra={
                details.FAULT: "{value} is not usable: at most 253 letters, digits, dots, dashes and underscores, not "
                "only digits"
            },
        ),
    ]
    bmc_address: params.Address | None = None
    bmc_credential: params.Reference | None = None
    bootstrap: bool = False


NewNode: type[_NewNode] = msgspec.defstruct(  # type: ignore[assignment]
    "NewNode",
    [
        (name, detail.form | None if name in details.REMOVABLE else detail.form, details.DEFAULTS[name])
        for name, detail in details.DETAILS.items()
    ],
    bases=(_NewNode,),
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
)
NewNode.__doc__ = _NewNode.__doc__

# Omitted details do not change, and null removes a detail. Only a detail of `details.REMOVABLE` accepts null. `labels`
# and `macs` replace all earlier labels or addresses.
NodeChange: type[msgspec.Struct] = msgspec.defstruct(
    "NodeChange",
    [
        (name, (detail.form | None if name in details.REMOVABLE else detail.form) | msgspec.UnsetType, UNSET)
        for name, detail in details.DETAILS.items()
    ],
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
)
NodeChange.__doc__ = (
    "Details to change. An omitted detail does not change; null removes one of "
    f"{', '.join(f'`{name}`' for name in details.REMOVABLE)}. `labels` and `macs` replace all earlier values."
)


async def list_(call: ApiRequest[NodePage, None]) -> Response:
    """List nodes by name, in pages."""
    given = call.given
    found = await call.backend.queries.inventory(given.wanted(), after=given.after, limit=given.limit)
    last = found.rows[-1].name if len(found.rows) == given.limit else None
    return operation.json(NodeList(now=found.now, nodes=found.rows, next=last))


async def show(call: ApiRequest[ReadNode, None]) -> Response:
    """Show all data of one node, with its running clocks and the recommended next action. The ETag is the node's
    version. It changes with the node's states and details and with the answer to an intent, but not with data that are
    only observed, such as heartbeats."""
    found = await _read(call, call.given.node)
    etag = etag_of(found.node)
    if call.given.if_none_match is not None and _matches(call.given.if_none_match, etag):
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers={"ETag": etag})
    return operation.json(found, headers={"ETag": etag})


async def register(call: ApiRequest[Registering, Any]) -> Response:
    """Register one node or a list of nodes. If the body is a list, farrier registers either all of its nodes or none.
    farrier does nothing to a machine until an intent requests it."""
    given = call.body if isinstance(call.body, list) else [call.body]
    for name, times in Counter(each.name for each in given).items():
        if times > 1:
            raise RefusedRequest(
                HTTPStatus.BAD_REQUEST, f"name {name!r} occurs {times} times in the list; give each node once"
            )
    by = await requester(call.request, None)
    nodes = await call.backend.requests.register([_registration(each, call, by) for each in given])
    headers = {"Location": f"/api/v1/nodes/{nodes[0].id}"} if len(nodes) == 1 else None
    return operation.json(RegisteredNodes(nodes=nodes), HTTPStatus.CREATED, headers)


async def change(call: ApiRequest[Changing, Any]) -> Response:
    """Change details of a node, with the intent `set`. farrier responds after the intent is answered; the response
    contains the changed node."""
    given, backend = call.given, call.backend
    values = {name: getattr(call.body, name) for name in details.DETAILS if getattr(call.body, name) is not UNSET}
    if not values:
        names = ", ".join(details.DETAILS)
        raise RefusedRequest(
            HTTPStatus.BAD_REQUEST, "the request body changes nothing; expected at least one detail", hint=names
        )
    request: dict[str, Any] = {name: value for name, value in values.items() if value is not None}
    if len(request) < len(values):
        request["unset"] = [name for name, value in values.items() if value is None]
    if given.if_match is not None:
        node = (await _read(call, given.node)).node
        if not _matches(given.if_match, etag_of(node)):
            raise _changed(node, given.if_match)
        request["if_version"] = node.version
    intent = await backend.requests.ask(
        asked.IntentRequest(
            resource=given.node,
            action=Action.SET,
            params=request,
            requested_by=await requester(call.request, None),
            api_version=given.api_version,
        )
    )
    answered = await intents.awaited(call, NODE, intent)
    if answered.status == IntentStatus.PENDING:
        return intents.answered(answered)
    found = await _read(call, given.node)
    if answered.status == IntentStatus.ACCEPTED:
        return operation.json(found, headers={"ETag": etag_of(found.node)})
    if request.get("if_version", found.node.version) != found.node.version:
        raise _changed(found.node, given.if_match or "")
    raise intents.not_accepted(answered)


async def issue_bootstrap(call: ApiRequest[OfNode, None]) -> Response:
    """Issue a new bootstrap token for a node's agent. Earlier unused tokens become invalid."""
    token = await call.backend.requests.issue_bootstrap(call.given.node, call.backend.bootstrap_ttl)
    return operation.json(Bootstrap(bootstrap_token=token), HTTPStatus.CREATED)


async def list_evidence(call: ApiRequest[EvidencePage, None]) -> Response:
    """List the evidence of the cleanings of one node, newest first: for each device, what was done and what was seen
    afterwards."""
    page = await call.backend.queries.evidence(call.given.node, limit=call.given.limit)
    return operation.json(EvidenceList(now=page.now, evidence=page.rows))


def etag_of(node: NodeDetail) -> str:
    """Return the version of a node as an entity tag."""
    return f'"{node.version}"'


def _matches(header: str, etag: str) -> bool:
    return header.strip() == "*" or etag in (each.strip().removeprefix("W/") for each in header.split(","))


def _changed(node: NodeDetail, expected: str) -> RefusedRequest:
    return RefusedRequest(
        HTTPStatus.PRECONDITION_FAILED,
        f"If-Match: node {node.name} has the version {etag_of(node)}, not {expected}",
        hint="read the node again, and repeat the change if it still applies",
        headers={"ETag": etag_of(node)},
    )


async def _read(call: ApiRequest[Any, Any], name: str) -> ShownNode:
    backend = call.backend
    found = await backend.queries.node(name)
    (node,) = found.rows
    explained = await dry_runs.explained(backend.requests, found, backend.limits, backend.patience, backend.period)
    return ShownNode(
        now=found.now,
        node=node,
        clocks=tuple(map(ClockView.of, explained.clocks)),
        next_action=NextAction.of(explained),
    )


def _registration(node: _NewNode, call: ApiRequest[Registering, Any], by: str) -> asked.Registration:
    return asked.Registration(
        name=node.name,
        bmc_address=node.bmc_address,
        bmc_credential=node.bmc_credential,
        bootstrap_token=bootstraps.token(secrets.token_hex()) if node.bootstrap else None,
        bootstrap_ttl=call.backend.bootstrap_ttl,
        api_version=call.given.api_version,
        requested_by=by,
        **{name: getattr(node, name) for name in details.DETAILS},
    )


_ETAG = {"ETag": "Version of the node."}
_SHOWN = ResponseType(what="The node.", body=ShownNode, headers=_ETAG)
_SHOW = {200: _SHOWN, 304: ResponseType(what="The node still has the version of `If-None-Match`.", headers=_ETAG)}
_LIST = {200: ResponseType(what="A page of nodes.", body=NodeList)}

OPERATIONS = [
    Operation(path="/nodes", respond=list_, given=narrowed(NodePage), answers=_LIST),
    Operation(
        path="/nodes",
        method="POST",
        respond=register,
        given=Registering,
        body=NewNode | Annotated[list[NewNode], Meta(min_length=1, max_length=MOST_ROWS)],  # type: ignore[valid-type]
        largest=_LARGEST_REGISTRATION,
        scope=Scope.REGISTER,
        answers={201: ResponseType(what="The nodes are registered.", body=RegisteredNodes)},
    ),
    Operation(path="/nodes/{node}", respond=show, given=ReadNode, answers=_SHOW),
    Operation(
        path="/nodes/{node}",
        method="PATCH",
        respond=change,
        given=Changing,
        body=NodeChange,
        scope=Scope.INTENT,
        answers={
            200: _SHOWN,
            202: intents.ANSWERED[202],
            409: intents.NOT_ACCEPTED,
            412: refusal("The node does not have the version of `If-Match`."),
        },
    ),
    Operation(
        path="/nodes/{node}/bootstrap",
        method="POST",
        respond=issue_bootstrap,
        given=OfNode,
        scope=Scope.REGISTER,
        answers={201: ResponseType(what="The token.", body=Bootstrap)},
    ),
    reads("/nodes/{node}/evidence", list_evidence, "The evidence.", EvidenceList, given=EvidencePage),
    # The paths of any kind also work for nodes; these two respond with more data than for other kinds.
    Operation(path=f"/resources/{NODE}", respond=list_, given=narrowed(NodePage), answers=_LIST),
    Operation(path=f"/resources/{NODE}/{{node}}", respond=show, given=ReadNode, answers=_SHOW),
]
