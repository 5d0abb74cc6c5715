"""The asynchronous client."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Self, TypeVar

import anyio
import httpx

from farrier.client import calls, errors, feed, wire
from farrier.client.calls import ApiCall, Filter, NewNode
from farrier.client.errors import ApiUnreachable
from farrier.client.feed import Feed
from farrier.model.intents.actions import Action
from farrier.model.intents.requests import IntentRequest, IntentStatus, Registered
from farrier.model.monitors.monitor import Report, ReportAnswer
from farrier.model.node.conditions import Condition
from farrier.model.node.layers import NODE
from farrier.model.views.fleet import ShardOwnership
from farrier.model.views.intents import IntentView
from farrier.model.views.nodes import NodeView
from farrier.model.views.resources import KindView, ResourceView
from farrier.model.views.responses import Change, Kinds, ShownNode

T = TypeVar("T")


class AsyncFarrier:
    """A client of one server. After a failure, the client sends a request again only if repeating the request has no
    further effect. With `contextlib.aclosing`, an iterator ends at a known moment."""

    def __init__(self, url: str, *, token: str | None = None, verify: Any = True, transport: Any = None) -> None:
        self._url = url
        self._http = httpx.AsyncClient(**wire.options(url, token, verify), transport=transport)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_raised: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    # --- nodes

    async def nodes(self, /, **filters: Filter) -> AsyncGenerator[NodeView, None]:
        """Yield all nodes that fit the filters (`status`, `management`, `site`, `model`, …), in the order of their
        names."""
        after: str | None = ""
        while after is not None:
            page = await self.call(calls.nodes(filters, after))
            for each in page.nodes:
                yield each
            after = page.next

    async def node(self, name: str) -> ShownNode:
        """Return one node with all its data (`node`), its running `clocks` and the recommended `next_action`."""
        return await self.call(calls.node(name))

    async def register(self, *nodes: NewNode) -> Sequence[Registered]:
        """Register either all of these nodes or none of them. For each node with `bootstrap`, the result has the
        token of its agent."""
        return (await self.call(calls.register(nodes))).nodes

    async def change(self, /, name: str, *, version: int | None = None, wait: float = 30, **details: Any) -> IntentView:
        """Change details of a node with the intent `set`, and wait for the answer. The value None removes a detail
        that can be absent: site, model, rack or maas_id. `labels` and `macs` replace all earlier values. With
        `version`, farrier makes the change only if the node still has this version. Raises NotAccepted."""
        return await self.submit(name, Action.SET, calls.changes(details, version), wait=wait)

    # --- conditions

    async def conditions(self, node: str) -> Sequence[Condition]:
        """Return the conditions of a node, from all sources."""
        return (await self.node(node)).node.conditions

    async def state_condition(self, /, node: str, id_: str, *, target: str = "", **said: Any) -> ReportAnswer:
        """State a condition of a node, as the monitor whose token this is. `said` may contain `message`, `effect`
        and `expires_at`. A monitor states a condition again before it expires. Raises ApiError if farrier does not take
        it."""
        return await self.call(calls.state_condition(Report(node=node, id=id_, target=target, **said)))

    async def end_condition(self, node: str, id_: str, *, target: str = "") -> ReportAnswer:
        """End a condition that this monitor has stated. If the node does not have it, the result has the reason."""
        return await self.call(calls.end_condition(Report(node=node, id=id_, target=target, ends=True)))

    # --- intents

    async def submit(
        self, /, resource: str, action: str, params: Mapping[str, Any] | None = None, *, wait: float = 0, **more: Any
    ) -> IntentView:
        """Submit an intent, and wait up to `wait` seconds for its answer. `more` may contain `kind`, `key` and
        `requested_by`. Raises NotAccepted if the intent is rejected or superseded."""
        given = IntentRequest(resource=resource, action=action, params=params or {}, **more)
        deadline = time.monotonic() + wait
        intent = await self.call(calls.submit(given, wait))
        if intent.status == IntentStatus.PENDING and (left := deadline - time.monotonic()) > 0:
            intent = await self.intent(intent.id, kind=given.kind, wait=left)
        if intent.status in (IntentStatus.REJECTED, IntentStatus.SUPERSEDED):
            raise errors.of_answer(intent)
        return intent

    async def intent(self, id_: int, *, kind: str = NODE, wait: float = 0) -> IntentView:
        """Return an intent, with its answer if the answer arrives within `wait` seconds."""
        deadline = time.monotonic() + wait
        intent = await self.call(calls.intent(kind, id_, wait))
        while intent.status == IntentStatus.PENDING and (left := deadline - time.monotonic()) > 0:
            intent = await self.call(calls.intent(kind, id_, left))
        return intent

    async def intents(self, /, *, kind: str = NODE, **filters: Filter) -> AsyncGenerator[IntentView, None]:
        """Yield the intents that fit the filters, the newest first. Filters are `node` or `resource`, `status`,
        `action` and `requested_by`."""
        before, more = None, True
        while more:
            page = await self.call(calls.intents(kind, filters, before))
            for each in page.intents:
                yield each
            before, more = page.next, page.next is not None

    # --- resources of other kinds, controllers

    async def kinds(self) -> Sequence[KindView]:
        """Return all kinds with their states and actions."""
        return (await self.call(ApiCall(path="/resources", type=Kinds))).kinds

    async def resources(self, /, kind: str, **filters: Filter) -> AsyncGenerator[ResourceView, None]:
        """Yield all resources of a kind that fit the filters `state`, `site` and `ended`."""
        after: str | None = ""
        while after is not None:
            page = await self.call(calls.resources(kind, filters, after))
            for each in page.resources:
                yield each
            after = page.next

    async def resource(self, kind: str, name: str) -> ResourceView:
        """Return one resource with all its data. The resource may have ended."""
        return (await self.call(calls.resource(kind, name))).resource

    async def controllers(self) -> ShardOwnership:
        """Return the controllers, and the shards without a controller."""
        return await self.call(ApiCall(path="/controllers", type=ShardOwnership))

    # --- changes

    async def cursor(self) -> str:
        """Return the current end of the feed. Call this method before reading a list: `watch(after=…)` then yields each
        change that the list does not contain."""
        following = Feed({}, None)
        try:
            async with self._lines(following) as lines:
                async for line in lines:
                    following.line(line)
                    if following.cursor is not None:
                        return following.cursor
        except httpx.TransportError as failure:
            raise ApiUnreachable(self._url, str(failure) or type(failure).__name__) from failure
        raise ApiUnreachable(self._url, "the stream of changes ended before the server sent the first cursor")

    async def watch(self, /, *, after: str | None = None, **filters: Filter) -> AsyncGenerator[Change, None]:
        """Yield each change exactly once, after farrier has recorded it. The feed begins now, or after the stored
        cursor `after`. Reconnects after a failure. Filters are `kind`, `layer`, `to`, `resource` (`node/NAME`), …"""
        following = Feed(filters, after)
        while True:
            following.begin()
            with suppress(httpx.TransportError, ApiUnreachable):
                async with self._lines(following) as lines:
                    async for line in lines:
                        if (change := following.line(line)) is not None:
                            yield change
            await self._pause(feed.PAUSE_SECONDS)

    # --- any request

    async def call(self, call: ApiCall[T]) -> T:
        """Send one request. Raises ApiError, or ApiUnreachable if no response arrives."""
        attempt = 0
        while True:
            attempt += 1
            try:
                response = await self._response(call)
                if not wire.is_worth_another(call, attempt, response):
                    return wire.read(call, response)
            except httpx.TransportError as failure:
                if not wire.is_worth_another(call, attempt, None):
                    raise ApiUnreachable(self._url, str(failure) or type(failure).__name__) from failure
            await self._pause(wire.PAUSE_SECONDS * attempt)

    # --- the transport

    async def _response(self, call: ApiCall[Any]) -> httpx.Response:
        return await self._http.request(**wire.arguments(call))

    @asynccontextmanager
    async def _lines(self, following: Feed) -> AsyncIterator[AsyncIterator[str]]:
        async with self._http.stream(**following.arguments) as response:
            if not wire.is_stream(response):
                await response.aread()
                raise wire.failure(self._url, response)
            yield response.aiter_lines()

    async def _pause(self, seconds: float) -> None:
        await anyio.sleep(seconds)
