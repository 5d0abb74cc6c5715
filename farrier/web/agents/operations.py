"""The operations of the agents' API. One table lists them; the routes and the OpenAPI document are made from it."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from functools import cache
from http import HTTPStatus
from typing import Any, Generic, assert_never

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from typing_extensions import override

from farrier.errors import DatabaseUnreachable
from farrier.model.machine.agent import Beat, BeatAnswer, BeatVerdict, Enrolment, TaskEnd
from farrier.model.machine.health import SshSeed
from farrier.model.node.conditions import Effect
from farrier.protocols import AgentCalls
from farrier.web.agents import bodies
from farrier.web.agents.batches import Batches
from farrier.web.api import decoding as reading
from farrier.web.api import openapi
from farrier.web.api.operation import B, G, NoParameters, Operation, ResponseType, json, refusal
from farrier.web.server.refusals import RefusedRequest

# Levels of arrays and objects in a body. Programs that read stored JSON decode it recursively.
_DEEPEST = 32
_SCHEME = "bearer "
_UNKNOWN = "no node has an agent with this key: the node was deleted, or another agent has enrolled"
_ENROL_AGAIN = "stop, or enrol again with a new bootstrap token"


class Agents(msgspec.Struct, frozen=True):
    """What the operations use: the calls of agents, and the batches of those that come from many at once."""

    calls: AgentCalls
    batches: Batches


class AgentCall(msgspec.Struct, Generic[G, B], frozen=True):
    """A request of an operation, with its parameters and its body."""

    request: Request
    agents: Agents
    given: G
    body: B


class AgentOperation(Operation, frozen=True, kw_only=True):
    """An operation of the agents' API, whose path is relative to /agent/v1. If `has_key`, the agent authenticates with
    its key."""

    has_key: bool = True

    @override
    async def __call__(self, request: Request) -> Response:
        if self.has_key:
            key_of(request)
        fields = reading.fields(self.given, self.path)
        reading.refuse_unknown(request, fields)
        agents = agents_of(request)
        parameters = NoParameters() if not fields else reading.parameters(request, self.given, fields)
        body = None if self.body is None else await reading.body(request, self.body, self.largest, _DEEPEST)
        return await self.respond(AgentCall(request, agents, parameters, body))

    @override
    def security(self, scheme: str) -> list[dict[str, list[str]]]:
        return [{scheme: []}] if self.has_key else [{}]


def agents_of(request: Request) -> Agents:
    """Return what the operations use. Raises DatabaseUnreachable while the server starts."""
    found = request.scope.get("agents")
    if isinstance(found, Agents):
        return found
    raise DatabaseUnreachable("the configured server", "this server has not connected to it yet")


def key_of(request: Request) -> str:
    """Return the digest of the agent's key, in hexadecimal. Raises Refused if the request has no key."""
    key: str | None = request.scope.get("key")
    if key is None:
        header = request.headers.get("authorization", "")
        given = header[len(_SCHEME) :].strip()
        if header[: len(_SCHEME)].lower() != _SCHEME or not given:
            text = "a key is required; expected the header Authorization: Bearer KEY"
            raise RefusedRequest(HTTPStatus.UNAUTHORIZED, text, hint="enrol first, with a bootstrap token")
        key = hashlib.sha256(given.encode("latin-1")).hexdigest()
        request.scope["key"] = key
    return key


async def enroll(call: AgentCall[NoParameters, bodies.EnrollBody]) -> Response:
    """Enrol the agent of a node with its bootstrap token. The agent makes a random key, and sends its digest. A
    repeated call with the same token and digest succeeds again. A machine that is not the node's is refused, and the
    token stays valid."""
    body = call.body
    identity = {name: value for name, value in msgspec.structs.asdict(body.identity).items() if value}
    enrolment = Enrolment(
        token=body.token,
        key_digest=body.key_digest,
        facts={**body.facts, **identity},
        version=body.version,
        boot_id=body.boot_id,
    )
    found = await call.agents.batches.enrolments.add(enrolment)
    if found.refused is not None or found.node is None:
        raise _other_machine(found.refused or "")
    return json(bodies.EnrollAnswer(found.node, 1))


async def heartbeat(call: AgentCall[NoParameters, bodies.HeartbeatBody]) -> Response:
    """Report that the machine runs, and all conditions that stand now. A condition that is no longer reported has
    ended. Of two machines with one key, the one that booted last is served; the other gets 409."""
    body = call.body
    beat = Beat(
        key=key_of(call.request),
        boot=body.boot_id,
        version=body.version,
        health=_health(body),
        facts=body.facts_digest,
        clock=body.clock,
    )
    answer = await call.agents.batches.beat(beat)
    if answer.verdict is not BeatVerdict.TAKEN:
        raise _refusal(answer)
    return _answer(answer.wait, answer.facts, answer.claim)


async def put_facts(call: AgentCall[NoParameters, bodies.FactsBody]) -> Response:
    """Replace the facts about the machine. The agent sends them when a heartbeat wants them."""
    refused = await call.agents.calls.put_facts(key_of(call.request), call.body.digest, call.body.facts)
    if refused is not None:
        raise _other_machine(refused)
    return json(bodies.Succeeded())


async def claim(call: AgentCall[NoParameters, bodies.ClaimBody]) -> Response:
    """Claim the oldest queued task of the node among the given types. The agent may work on the task until its lease
    ends. A repeated call with the same key returns the same lease."""
    body = call.body
    lease = timedelta(seconds=body.lease)
    task = await call.agents.calls.claim(key_of(call.request), body.types, body.idempotency_key, lease)
    return json({"task": task})


async def renew(call: AgentCall[bodies.TaskPath, bodies.RenewBody]) -> Response:
    """Extend the lease of a claimed task. 410 means that the agent has lost the task, and must stop its work."""
    lease = timedelta(seconds=call.body.lease)
    until = await call.agents.calls.renew(key_of(call.request), call.given.id, call.body.lease_token, lease)
    return json(bodies.RenewAnswer(until))


async def finish(call: AgentCall[bodies.TaskPath, bodies.FinishBody]) -> Response:
    """End a claimed task, with its result and the evidence of the result. A repeated call succeeds, also if the task
    has removed the agent's key. 410 means that the agent has lost the task."""
    body = call.body
    end = TaskEnd(lease_token=body.lease_token, succeeded=body.succeeded, result=body.result, evidence=body.evidence)
    await call.agents.calls.finish(key_of(call.request), call.given.id, end)
    return json(bodies.Succeeded())


def _health(body: bodies.HeartbeatBody) -> dict[str, Any]:
    """Return the report in the form of `farrier.heartbeat`, so that both ways to report have the same effect."""
    health: dict[str, Any] = {"ok": body.ok}
    if body.ssh_seed is not SshSeed.UNKNOWN:
        health["ssh_seed"] = body.ssh_seed
    if body.conditions:
        health["alerts"] = [
            {
                "id": each.id,
                "target": each.target,
                "message": each.message,
                "blocks_scheduling": each.effect is Effect.QUARANTINE,
            }
            for each in body.conditions
        ]
    return health


@cache
def _answer(wait: int, facts: bool, claim: bool) -> Response:
    wants = ((bodies.Want.FACTS,) if facts else ()) + ((bodies.Want.CLAIM,) if claim else ())
    return json(bodies.HeartbeatAnswer(wait, wants))


def _refusal(answer: BeatAnswer) -> RefusedRequest:
    match answer.verdict:
        case BeatVerdict.UNKNOWN:
            return RefusedRequest(HTTPStatus.UNAUTHORIZED, _UNKNOWN, hint=_ENROL_AGAIN)
        case BeatVerdict.REPLACED:
            text = "another machine uses the key of this agent, and booted later"
            return RefusedRequest(
                HTTPStatus.CONFLICT, text, hint="enrol with a bootstrap token of this machine's own node"
            )
        case BeatVerdict.HELD:
            text = "the database was restored from a backup, and the node is held"
            return RefusedRequest(
                HTTPStatus.CONFLICT, text, hint="send the request again later; an operator lifts the hold"
            )
        case BeatVerdict.REFUSED:
            return RefusedRequest(HTTPStatus.BAD_REQUEST, answer.reason or "the report is malformed")
        case BeatVerdict.LOCKED | BeatVerdict.TAKEN:
            return RefusedRequest(
                HTTPStatus.SERVICE_UNAVAILABLE, "the node is in use at the moment", hint="try again later"
            )
        case _ as never:
            assert_never(never)


def _other_machine(reason: str) -> RefusedRequest:
    hint = "this is not the machine of the node; use the bootstrap token of this machine's own node"
    return RefusedRequest(HTTPStatus.CONFLICT, reason, hint=hint)


_TOO_LATE = refusal("The agent has lost the task, and must stop its work.")
_CONFLICT = "Another machine uses the key, or the node is held after the restore of a backup."

OPERATIONS: tuple[AgentOperation, ...] = (
    AgentOperation(
        path="/enroll",
        method="POST",
        respond=enroll,
        body=bodies.EnrollBody,
        has_key=False,
        answers={
            200: ResponseType(what="The agent is enrolled.", body=bodies.EnrollAnswer),
            403: refusal("The token is unknown, used by another agent, revoked or expired."),
            409: refusal(
                "The machine is not the node's, or another node has the key, or the node is held after the "
                "restore of a backup."
            ),
        },
    ),
    AgentOperation(
        path="/heartbeat",
        method="POST",
        respond=heartbeat,
        body=bodies.HeartbeatBody,
        answers={
            200: ResponseType(what="The heartbeat is recorded.", body=bodies.HeartbeatAnswer),
            409: refusal(_CONFLICT),
        },
    ),
    AgentOperation(
        path="/facts",
        method="PUT",
        respond=put_facts,
        body=bodies.FactsBody,
        answers={
            200: ResponseType(what="The facts are stored.", body=bodies.Succeeded),
            409: refusal("The facts are of another machine, or the node is held after the restore of a backup."),
        },
    ),
    AgentOperation(
        path="/claim",
        method="POST",
        respond=claim,
        body=bodies.ClaimBody,
        answers={
            200: ResponseType(what="The task, or null.", body=bodies.ClaimAnswer),
            409: refusal(_CONFLICT),
        },
    ),
    AgentOperation(
        path="/task/{id}/renew",
        method="POST",
        respond=renew,
        given=bodies.TaskPath,
        body=bodies.RenewBody,
        answers={200: ResponseType(what="The new end of the lease.", body=bodies.RenewAnswer), 410: _TOO_LATE},
    ),
    AgentOperation(
        path="/task/{id}/finish",
        method="POST",
        respond=finish,
        given=bodies.TaskPath,
        body=bodies.FinishBody,
        answers={200: ResponseType(what="The task has ended.", body=bodies.Succeeded), 410: _TOO_LATE},
    ),
)

_API = openapi.Api(
    title="farrier for agents",
    description="Agents enrol, report the health of their machines, and do the tasks of their nodes.",
    prefix="/agent/v1",
    refusals={
        400: "The body is wrong.",
        401: "The request has no key, or no node has an agent with this key.",
        413: "The body has more than 64 KiB.",
        429: "Too many requests with this key, or from this address. `Retry-After` is the number of seconds to wait.",
        503: "The server or the database cannot answer now. `Retry-After` is the number of seconds to wait.",
    },
)


@cache
def document() -> bytes:
    """Return the OpenAPI document of the agents' API."""
    return openapi.document(OPERATIONS, _API)
