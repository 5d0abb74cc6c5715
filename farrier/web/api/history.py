"""The API's operations on history: pages in both orders, and a stream of new changes.

With `order=oldest` and in the stream, farrier returns a change a few seconds later, when no earlier change can become
visible any more. So a client that continues from a cursor misses no change.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from http import HTTPStatus
from typing import Annotated, TypeVar

import anyio
import msgspec
import structlog
from msgspec import Meta
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from farrier.errors import FarrierError
from farrier.model import duration
from farrier.model.api_token import Scope
from farrier.model.node.layers import NODE
from farrier.model.views.history import (
    HistoryEntry,
    HistoryFilter,
    HistoryKey,
    Order,
    parse_bound,
    parse_key,
    parse_resource,
)
from farrier.model.views.responses import Change, Changes
from farrier.web.api import operation
from farrier.web.api.operation import ApiRequest, Operation, ResponseType
from farrier.web.api.parameter_types import Kind, Limit, Name
from farrier.web.server.access import authorize_again
from farrier.web.server.backend import Backend
from farrier.web.server.refusals import RefusedRequest

T = TypeVar("T")

_log = structlog.stdlib.get_logger(__name__)

EVENTS = "text/event-stream"
_PAGE = 500
_POLL_SECONDS = 1.0
# Proxies close an idle connection after a minute, some after half a minute.
_KEEP_ALIVE_SECONDS = 15.0
# Each stream makes a query a second, on one of the few connections of the web application.
_MOST_STREAMS = 64


class Narrowed(msgspec.Struct, frozen=True, kw_only=True):
    """Which changes to return. If a parameter is given several times, a change has to match one of the values."""

    since: Annotated[
        str | None, Meta(description="Return only changes since this time, or younger than this age (2h).")
    ] = None
    until: Annotated[str | None, Meta(description="Return only changes before this time, or older than this age.")] = (
        None
    )
    layer: Annotated[tuple[str, ...], Meta(description="Return only changes of these layers.")] = ()
    source: Annotated[tuple[str, ...], Meta(description="Return only transitions out of these states.")] = (
        msgspec.field(default=(), name="from")
    )
    target: Annotated[tuple[str, ...], Meta(description="Return only transitions into these states.")] = msgspec.field(
        default=(), name="to"
    )
    cause: Annotated[
        tuple[str, ...], Meta(description="Return only changes whose cause is, or begins with, one of these.")
    ] = ()
    requested_by: Annotated[
        tuple[str, ...], Meta(description="Return only changes that were caused by intents of these clients.")
    ] = ()
    reason: Annotated[str, Meta(description="Return only changes with this text in the reason; case is ignored.")] = ""
    at_least: Annotated[
        str | None, Meta(description="Return only changes whose previous state lasted at least this long (30m).")
    ] = None

    def narrow(self, resource: tuple[str, str] | None, kinds: tuple[str, ...] = ()) -> HistoryFilter:
        """Return the filter for the query. Raises Refused."""
        return HistoryFilter(
            resource=resource,
            since=_parsed("since", self.since, parse_bound),
            until=_parsed("until", self.until, parse_bound),
            kinds=kinds,
            layers=self.layer,
            sources=self.source,
            targets=self.target,
            causes=self.cause,
            requested_by=self.requested_by,
            reason=self.reason,
            at_least=_parsed("at_least", self.at_least, duration.parse),
        )


class OfAll(Narrowed, frozen=True, kw_only=True):
    after: Annotated[
        str | None,
        Meta(description="Cursor or key of an earlier response. The response continues after this position."),
    ] = None
    kind: Annotated[tuple[str, ...], Meta(description="Return only changes of resources of these kinds.")] = ()
    resource: Annotated[str | None, Meta(description="Return only changes of this resource: KIND/NAME.")] = None

    def wanted(self) -> HistoryFilter:
        """Return the filter for the query. Raises Refused."""
        return self.narrow(_parsed("resource", self.resource, parse_resource), self.kind)

    def key(self) -> HistoryKey | None:
        """Return the key of the change after which to continue. Raises Refused."""
        return _key("after", self.after)


class HistoryQuery(OfAll, frozen=True, kw_only=True):
    order: Annotated[Order, Meta(description="Newest first, or oldest first.")] = Order.NEWEST
    limit: Limit = 100


class Streaming(OfAll, frozen=True, kw_only=True):
    last_event_id: Annotated[
        str | None,
        Meta(description="ID of the last event that the client received. The stream continues after this event."),
    ] = msgspec.field(default=None, name="Last-Event-ID")


class _OfOne(Narrowed, frozen=True, kw_only=True):
    before: Annotated[
        str | None, Meta(description="Return only changes before this key. For the next page, use `next` of this page.")
    ] = None
    limit: Limit = 100


class OfOneNode(_OfOne, frozen=True, kw_only=True):
    node: Name


class OfOneResource(_OfOne, frozen=True, kw_only=True):
    kind: Kind
    name: Name


async def list_(call: ApiRequest[HistoryQuery, None]) -> Response:
    """List changes of all resources. With `order=oldest`, a client that passes the `cursor` of each response as `after`
    misses no change."""
    given = call.given
    return await _send(call.backend, given.wanted(), given.key(), order=given.order, limit=given.limit)


async def list_of_node(call: ApiRequest[OfOneNode, None]) -> Response:
    """List changes of one node, newest first."""
    return await _send_one(call.backend, (NODE, call.given.node), call.given)


async def list_of_resource(call: ApiRequest[OfOneResource, None]) -> Response:
    """List changes of one resource of any kind, newest first."""
    return await _send_one(call.backend, (call.given.kind, call.given.name), call.given)


async def stream(call: ApiRequest[Streaming, None]) -> Response:
    """Stream changes as server-sent events. The stream begins after a given cursor, or otherwise with the next change.
    The ID of each event is a cursor: a client that reconnects with the header `Last-Event-ID`, as browsers do, misses
    no change, and gets no change twice."""
    given, backend = call.given, call.backend
    wanted = given.wanted()
    last = _key("Last-Event-ID", given.last_event_id) or given.key()
    # Up to here, an error of the filter or of the database can still be returned as an error response.
    key = last or HistoryKey(await backend.queries.settled(), 0, 0, "-", "-")
    await backend.queries.history(wanted, order=Order.OLDEST, after=key, limit=1)
    if call.request.method == "HEAD":
        return Response(media_type=EVENTS)
    if len(_open) >= _MOST_STREAMS:
        raise RefusedRequest(
            HTTPStatus.SERVICE_UNAVAILABLE,
            f"this server already sends {_MOST_STREAMS} streams",
            hint="use another replica, or poll GET /api/v1/history?order=oldest",
        )
    return StreamingResponse(_events(call.request, backend, wanted, key), media_type=EVENTS)


# The open streams of this process.
_open: set[object] = set()


async def _events(request: Request, backend: Backend, wanted: HistoryFilter, key: HistoryKey) -> AsyncIterator[bytes]:
    """Yield the events of one stream, until the database is unreachable or the token is no longer accepted."""
    stream = object()
    _open.add(stream)
    try:
        yield b"retry: 2000\n" + _mark(key)
        sent = anyio.current_time()
        while True:
            page = await backend.queries.history(wanted, order=Order.OLDEST, after=key, limit=_PAGE)
            await authorize_again(request, Scope.READ)
            key = page.reached or key
            if page.changes or anyio.current_time() - sent > _KEEP_ALIVE_SECONDS:
                yield b"".join(map(_event, page.changes)) or _mark(key)
                sent = anyio.current_time()
            if page.following is None:
                await anyio.sleep(_POLL_SECONDS)
    except FarrierError as error:
        _log.warning("http.stream_ended", error=str(error))
    except HTTPException as refusal:
        _log.info("http.stream_ended", error=refusal.detail)
    finally:
        _open.discard(stream)


def _mark(key: HistoryKey) -> bytes:
    """Return an ID without an event. A client that has received no change continues after this ID."""
    return f"id: {key.text}\n\n".encode()


def _event(entry: HistoryEntry) -> bytes:
    return f"id: {entry.key.text}\nevent: change\ndata: ".encode() + msgspec.json.encode(_change(entry)) + b"\n\n"


def _change(entry: HistoryEntry) -> Change:
    return Change(**msgspec.structs.asdict(entry), cursor=entry.key.text)


async def _send_one(backend: Backend, resource: tuple[str, str], given: _OfOne) -> Response:
    key = _key("before", given.before)
    return await _send(backend, given.narrow(resource), key, order=Order.NEWEST, limit=given.limit)


async def _send(
    backend: Backend, wanted: HistoryFilter, key: HistoryKey | None, *, order: Order, limit: int
) -> Response:
    page = await backend.queries.history(wanted, order=order, after=key, limit=limit)
    last = page.reached or key
    return operation.json(
        Changes(
            changes=tuple(map(_change, page.changes)),
            next=None if page.following is None else page.following.text,
            cursor=None if last is None else last.text,
        )
    )


def _key(name: str, text: str | None) -> HistoryKey | None:
    return _parsed(name, text, parse_key, f"{name} must be `next`, `cursor` or a `key` of an earlier response")


def _parsed(name: str, text: str | None, parse: Callable[[str], T], expected: str = "") -> T | None:
    """Parse a parameter with a special form. Raises Refused with the expected form."""
    if text is None:
        return None
    try:
        return parse(text)
    except ValueError as wrong:
        detail = f"{expected}, not {text!r}" if expected else f"{name}: {wrong}"
        raise RefusedRequest(HTTPStatus.BAD_REQUEST, detail) from None


_PAGES = {200: ResponseType(what="A page of changes.", body=Changes)}

OPERATIONS = [
    Operation(path="/history", respond=list_, given=HistoryQuery, answers=_PAGES),
    Operation(
        path="/history/stream",
        respond=stream,
        given=Streaming,
        answers={
            200: ResponseType(
                what="Changes as farrier records them. Each event `change` has one change as its data.", media=EVENTS
            )
        },
    ),
    Operation(path="/nodes/{node}/history", respond=list_of_node, given=OfOneNode, answers=_PAGES),
    Operation(path="/resources/{kind}/{name}/history", respond=list_of_resource, given=OfOneResource, answers=_PAGES),
]
