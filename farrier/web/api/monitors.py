"""API operations for monitors, which state conditions of nodes: single conditions, and Alertmanager's webhook. Lists of
the monitors and of the reports that were not taken."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from http import HTTPStatus
from typing import Annotated, assert_never

import msgspec
from msgspec import Meta
from starlette.responses import Response

from farrier import clock
from farrier.model.api_token import Scope
from farrier.model.monitors import alertmanager
from farrier.model.monitors.alertmanager import Taken, Webhook
from farrier.model.monitors.monitor import Report, ReportAnswer, Verdict
from farrier.model.node.conditions import Effect
from farrier.model.views.responses import Monitors, Refusals
from farrier.web.api import operation
from farrier.web.api.operation import ApiRequest, NoParameters, Operation, ResponseType, reads, refusal
from farrier.web.api.parameter_types import Limit, Name
from farrier.web.server.access import requester
from farrier.web.server.refusals import RefusedRequest

# Five thousand alerts, which is the most that the database takes at once, have about 4 MB.
_LARGEST_GROUP = 8 * 1024 * 1024


class OfCondition(msgspec.Struct, frozen=True, kw_only=True):
    """A condition that the monitor states of a node."""

    node: Name
    id: Annotated[str, Meta(min_length=1, description="ID of the condition, such as `gpu/xid-79`.")]
    target: Annotated[str, Meta(description="The part that it concerns, such as a serial number.")] = ""


class Stated(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the condition says. Without `expires_at`, it stands as long as the grant of the monitor says, unless the
    monitor states it again."""

    message: str = ""
    effect: Effect = Effect.NOTE
    expires_at: datetime | None = None


class RefusalFilter(msgspec.Struct, frozen=True, kw_only=True):
    monitor: Annotated[str | None, Meta(description="Return only reports of this monitor.")] = None
    limit: Limit = 100


async def state(call: ApiRequest[OfCondition, Stated]) -> Response:
    """State a condition of a node. The token has the name of the monitor. farrier counts and lists a condition that it
    refuses."""
    given, body = call.given, call.body
    return await _one(
        call,
        Report(
            node=given.node,
            id=given.id,
            target=given.target,
            message=body.message,
            effect=body.effect,
            expires_at=body.expires_at,
        ),
    )


async def end(call: ApiRequest[OfCondition, None]) -> Response:
    """End a condition that the monitor has stated. The request may be repeated: if the node does not have the
    condition, `reason` says so."""
    given = call.given
    return await _one(call, Report(node=given.node, id=given.id, target=given.target, ends=True))


async def take_alerts(call: ApiRequest[NoParameters, Webhook]) -> Response:
    """Take a group of alerts, as the webhook of Alertmanager sends it. The token has the name of the monitor. A firing
    alert states a condition, and a resolved alert ends it. farrier counts and lists alerts that it does not take. If
    some alerts of the group are missing, farrier takes none of the others."""
    monitors, group = call.backend.monitors, call.body
    monitor = await requester(call.request, None)
    if group.truncated_alerts:
        await monitors.refuse_truncated(monitor, group.group_key, group.truncated_alerts)
        raise RefusedRequest(
            HTTPStatus.BAD_REQUEST,
            f"{group.truncated_alerts} alerts of the group are missing, so none is taken",
            hint="remove max_alerts from the receiver in Alertmanager, or group by the label of the node",
        )
    reports = alertmanager.reports(group.alerts, await monitors.labels(monitor), clock.wall())
    return operation.json(alertmanager.summary(reports, await monitors.report(monitor, reports)))


async def list_monitors(call: ApiRequest[NoParameters, None]) -> Response:
    """List the monitors, what each may state, and how many of its conditions stand."""
    page = await call.backend.queries.monitors()
    return operation.json(Monitors(now=page.now, monitors=page.rows))


async def list_refusals(call: ApiRequest[RefusalFilter, None]) -> Response:
    """List reports of monitors that were not taken, the newest first: at most a hundred of each monitor."""
    page = await call.backend.queries.refusals(call.given.monitor, limit=call.given.limit)
    return operation.json(Refusals(now=page.now, refusals=page.rows))


async def _one(call: ApiRequest[OfCondition, Stated] | ApiRequest[OfCondition, None], report: Report) -> Response:
    (answer,) = await call.backend.monitors.report(await requester(call.request, None), [report])
    status = _status(answer.verdict)
    if status is not HTTPStatus.OK:
        raise RefusedRequest(status, answer.reason or answer.verdict, hint=_HINTS.get(answer.verdict, ""))
    return operation.json(answer)


def _status(verdict: Verdict) -> HTTPStatus:
    match verdict:
        case Verdict.TAKEN:
            return HTTPStatus.OK
        case Verdict.UNMAPPED:
            return HTTPStatus.NOT_FOUND
        case Verdict.FORBIDDEN:
            return HTTPStatus.FORBIDDEN
        case Verdict.MALFORMED:
            return HTTPStatus.BAD_REQUEST
        case Verdict.FULL:
            return HTTPStatus.CONFLICT
        case _ as never:
            assert_never(never)


_HINTS: Mapping[Verdict, str] = {
    Verdict.FORBIDDEN: "the owner of the schema can grant more with farrier.grant_monitor",
    Verdict.FULL: "end conditions of this node first",
}


_ONE: Mapping[int, ResponseType] = {
    200: ResponseType(what="The condition was recorded.", body=ReportAnswer),
    403: refusal("The token does not have the scope, or the monitor may not state this condition."),
    404: refusal("The node does not exist."),
}

OPERATIONS = [
    Operation(
        path="/nodes/{node}/conditions",
        method="PUT",
        respond=state,
        given=OfCondition,
        body=Stated,
        scope=Scope.CONDITIONS,
        answers={**_ONE, 409: refusal("The node has too many conditions of the monitor, and none is a note.")},
    ),
    Operation(
        path="/nodes/{node}/conditions",
        method="DELETE",
        respond=end,
        given=OfCondition,
        scope=Scope.CONDITIONS,
        answers=_ONE,
    ),
    Operation(
        path="/alertmanager",
        method="POST",
        respond=take_alerts,
        body=Webhook,
        largest=_LARGEST_GROUP,
        scope=Scope.CONDITIONS,
        answers={
            200: ResponseType(what="What became of the alerts.", body=Taken),
            400: refusal("Some alerts of the group are missing, or the payload is not version 4."),
            403: refusal("The token does not have the scope, or no monitor has its name."),
        },
    ),
    reads("/monitors", list_monitors, "The monitors.", Monitors),
    reads("/monitors/refusals", list_refusals, "The reports.", Refusals, given=RefusalFilter),
]
