"""The synchronous client."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Self, TypeVar

import httpx

from farrier.client import calls, errors, feed, wire
from farrier.client.calls import ApiCall, Filter, NewNode
from farrier.client.errors import ApiUnreachable
from farrier.client.feed import Feed
from farrier.model.intents.actions import Action
from farrier.model.intents.requests import IntentRequest, IntentStatus, Registered
from farrier.model.monitors.monitor import Report
from farrier.model.node.conditions import Condition
from farrier.model.node.edges import NODE
from farrier.model.views.controllers import ShardOwnership
from farrier.model.views.intents import IntentView
from farrier.model.views.nodes import NodeDetail, NodeView
from farrier.model.views.resources import KindView, ResourceView
from farrier.model.views.responses import Change

T = TypeVar("T")


class Farrier:
    """A client of one server. After a failure, the client sends a request again only if repeating the request has no
    further effect."""

    def __init__(self, url: str, *, token: str | None = None, verify: Any = True, transport: Any = None) -> None:
        self._url = url
        self._http = httpx.Client(**wire.options(url, token, verify), transport=transport)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    # --- nodes

    def nodes(self, **filters: Filter) -> Iterator[NodeView]:
        """Yield all nodes that fit the filters (`status`, `management`, `site`, `model`, …), in the order of their
        names."""
        after: str | None = ""
        while after is not None:
            page = self.call(calls.nodes(filters, after))
            yield from page.nodes
            after = page.next

    def node(self, name: str) -> NodeDetail:
        """Return one node with all its data."""
        return self.call(calls.node(name)).node

    def register(self, *nodes: NewNode) -> Sequence[Registered]:
        """Register either all of these nodes or none of them. For each node with `bootstrap`, the result has the
        token of its agent."""
        return self.call(calls.register(nodes)).nodes

    def change(self, name: str, *, version: int | None = None, wait: float = 30, **details: Any) -> IntentView:
        """Change details of a node with the intent `set`, and wait for the answer. The value None removes a detail
        that can be absent: site, model, rack or maas_id. `labels` and `macs` replace all earlier values. With
        `version`, farrier makes the change only if the node still has this version. Raises NotAccepted."""
        return self.submit(name, Action.SET, calls.changes(details, version), wait=wait)

    # --- conditions

    def conditions(self, node: str) -> Sequence[Condition]:
        """Return the conditions of a node, from all sources."""
        return (self.node(node)).conditions

    def state_condition(self, node: str, id_: str, *, target: str = "", **said: Any) -> None:
        """State a condition of a node, as the monitor whose token this is. `said` may contain `message`, `effect`
        and `expires_at`. A monitor states a condition again before it expires. Raises ApiError if farrier does not take
        it."""
        self.call(calls.state_condition(Report(node=node, id=id_, target=target, **said)))

    def end_condition(self, node: str, id_: str, *, target: str = "") -> None:
        """End a condition that this monitor has stated; a condition that has ended already is no error."""
        self.call(calls.end_condition(Report(node=node, id=id_, target=target, ends=True)))

    # --- intents

    def submit(
        self, resource: str, action: str, params: Mapping[str, Any] | None = None, *, wait: float = 0, **more: Any
    ) -> IntentView:
        """Submit an intent, and wait up to `wait` seconds for its answer. `more` may contain `kind`, `key` and
        `requested_by`. Raises NotAccepted if the intent is rejected or superseded."""
        given = IntentRequest(resource=resource, action=action, params=params or {}, **more)
        deadline = time.monotonic() + wait
        intent = self.call(calls.submit(given, wait))
        if intent.status == IntentStatus.PENDING and (left := deadline - time.monotonic()) > 0:
            intent = self.intent(intent.id, kind=given.kind, wait=left)
        if intent.status in (IntentStatus.REJECTED, IntentStatus.SUPERSEDED):
            raise errors.of_answer(intent)
        return intent

    def intent(self, id_: int, *, kind: str = NODE, wait: float = 0) -> IntentView:
        """Return an intent, with its answer if the answer arrives within `wait` seconds."""
        deadline = time.monotonic() + wait
        intent = self.call(calls.intent(kind, id_, wait))
        while intent.status == IntentStatus.PENDING and (left := deadline - time.monotonic()) > 0:
            intent = self.call(calls.intent(kind, id_, left))
        return intent

    def intents(self, *, kind: str = NODE, **filters: Filter) -> Iterator[IntentView]:
        """Yield the intents that fit the filters, the newest first. Filters are `node` or `resource`, `status`,
        `action` and `requested_by`."""
        before, more = None, True
        while more:
            page = self.call(calls.intents(kind, filters, before))
            yield from page.intents
            before, more = page.next, page.next is not None

    # --- resources of other kinds, controllers

    def kinds(self) -> Sequence[KindView]:
        """Return all kinds with their states and actions."""
        return self.call(calls.kinds()).kinds

    def resources(self, kind: str, **filters: Filter) -> Iterator[ResourceView]:
        """Yield all resources of a kind that fit the filters `state`, `site` and `ended`."""
        after: str | None = ""
        while after is not None:
            page = self.call(calls.resources(kind, filters, after))
            yield from page.resources
            after = page.next

    def resource(self, kind: str, name: str) -> ResourceView:
        """Return one resource with all its data. The resource may have ended."""
        return self.call(calls.resource(kind, name)).resource

    def controllers(self) -> ShardOwnership:
        """Return the controllers, and the shards without a controller."""
        return self.call(calls.controllers())

    # --- changes

    def cursor(self) -> str:
        """Return the current end of the feed. Call this method before reading a list: `watch(after=…)` then yields each
        change that the list does not contain."""
        following = Feed({}, None)
        try:
            with self._lines(following) as lines:
                for line in lines:
                    following.line(line)
                    if following.cursor is not None:
                        return following.cursor
        except httpx.TransportError as failure:
            raise ApiUnreachable(self._url, str(failure) or type(failure).__name__) from failure
        raise ApiUnreachable(self._url, "the stream of changes ended before the server sent the first cursor")

    def watch(self, *, after: str | None = None, **filters: Filter) -> Iterator[Change]:
        """Yield each change exactly once, after farrier has recorded it. The feed begins now, or after the stored
        cursor `after`. Reconnects after a failure. Filters are `kind`, `layer`, `to`, `resource` (`node/NAME`), …"""
        following = Feed(filters, after)
        while True:
            with suppress(httpx.TransportError, ApiUnreachable):
                yield from self._stream(following)
            time.sleep(feed.PAUSE_SECONDS)

    def _stream(self, following: Feed) -> Iterator[Change]:
        following.begin()
        with self._lines(following) as lines:
            for line in lines:
                change = following.line(line)
                if change is not None:
                    yield change

    @contextmanager
    def _lines(self, following: Feed) -> Iterator[Iterator[str]]:
        with self._http.stream(
            "GET",
            feed.PATH,
            params=following.query,
            headers=dict(following.headers),
            timeout=feed.SILENCE_SECONDS,
        ) as response:
            if not wire.is_stream(response):
                response.read()
                raise wire.failure(self._url, response)
            yield response.iter_lines()

    # --- any request

    def call(self, call: ApiCall[T]) -> T:
        """Send one request. Raises ApiError, or ApiUnreachable if no response arrives."""
        attempt = 0
        while True:
            attempt += 1
            try:
                response = self._http.request(**wire.arguments(call))
                if not wire.is_worth_another(call, attempt, response):
                    return wire.read(call, response)
            except httpx.TransportError as failure:
                if not wire.is_worth_another(call, attempt, None):
                    raise ApiUnreachable(self._url, str(failure) or type(failure).__name__) from failure
            time.sleep(wire.PAUSE_SECONDS * attempt)
