"""Decides which connections to BMCs stay open after a response, so that the next read needs no handshake.

The connector of `transport` asks here before each request, and reports each response. At most one connection of a BMC
is kept, and only for reads. A connection belongs to the credential and to the bindings with which it was opened: after
a change of either, it is closed. A BMC that ends a kept connection, or limits connections, gets a connection for each
request for the next hour, as a BMC that never keeps one.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Hashable
from datetime import timedelta
from functools import partial
from http import HTTPStatus
from typing import TypeAlias

import aiohttp
from aiohttp.client_proto import ResponseHandler

from farrier.protocols import Clock
from farrier.services.bmc.tls import keep_session

IDLE = timedelta(seconds=150)
"""The longest time for which a connection is kept without a request: two intervals of the regular reads of a BMC, and
time for a read that is late."""
LIVES = timedelta(hours=1)
"""The age at which a connection is closed, so that the name is resolved and the certificate is checked again."""
MOST = 8192
"""The largest number of connections that a process keeps. A connection takes some 60 KiB; further BMCs get a connection
for each request."""
GIVEN_UP_FOR = timedelta(hours=1)
"""For how long no connection is kept at a BMC that ended one, or that limits them."""
# A request must not be sent at the moment at which the BMC ends the connection.
_MARGIN_SECONDS = 2.0

# A BMC responds with one of these to a client that has too many connections or sends too many requests.
_LIMITED = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)
_TIMEOUT = re.compile(r"\btimeout\s*=\s*([0-9]{1,6})", re.ASCII)

Place: TypeAlias = tuple[str, int]
"""The host and the port of a BMC."""


class KeptConnection:
    """A connection to a BMC. `identity` is the secret of the requests on it; None for requests
    without a secret."""

    __slots__ = ("identity", "idle_for", "idle_since", "opened_at", "place", "protocol", "reused", "tls")

    def __init__(self, place: Place, protocol: ResponseHandler, tls: ssl.SSLObject) -> None:
        self.place = place
        self.protocol = protocol
        self.tls = tls
        self.opened_at = 0.0
        self.identity: Hashable = None
        self.idle_since: float | None = None  # None while a request uses the connection
        self.idle_for = IDLE.total_seconds()
        self.reused = False


class KeptConnections:
    """The connections of one client to all BMCs. Requests to one BMC must not overlap."""

    def __init__(self, clock: Clock, *, most: int = MOST) -> None:
        self._clock = clock
        self._most = most
        self._links: dict[Place, KeptConnection] = {}
        self._given_up: dict[Place, float] = {}  # until when

    def __len__(self) -> int:
        return len(self._links)

    def take(self, place: Place, *, reads: bool) -> KeptConnection | None:
        """Return the kept connection for the next request to a BMC. Closes a connection that must not be used."""
        link = self._links.get(place)
        if link is None:
            return None
        now, since = self._clock.monotonic(), link.idle_since
        if not link.protocol.is_connected():
            self._ended(link)
        elif not reads or since is None or now - link.opened_at >= LIVES.total_seconds():
            self.close(link, at_once=True)
        elif now - since >= link.idle_for:  # the BMC is read so rarely that the connection serves no purpose
            self._ended(link)
            link.protocol.close()
        else:
            link.idle_since, link.reused = None, True
            return link
        return None

    def opened(self, link: KeptConnection, *, reads: bool) -> None:
        """Record a new connection. It is kept after its first response, unless the BMC is given up or too many
        connections are kept."""
        link.opened_at = self._clock.monotonic()
        if not reads or self.is_given_up(link.place) or len(self._links) >= self._most:
            link.protocol.force_close()
            return
        self._links[link.place] = link
        if link.protocol.closed is not None:
            link.protocol.closed.add_done_callback(partial(self._closed, link))

    def responded(self, link: KeptConnection, response: aiohttp.ClientResponse) -> None:
        """Record the head of a response: the connection is kept, or it ends with the response, and only its TLS session
        is kept."""
        if not self.is_kept(link):
            keep_session(link.tls)
            return
        if response.status in _LIMITED:
            self.give_up(link.place)
        if not HTTPStatus.OK <= response.status < HTTPStatus.MULTIPLE_CHOICES:
            self.close(link, at_once=response.connection is None)
            return
        announced = _TIMEOUT.search(response.headers.get("Keep-Alive", ""))
        if announced is not None:
            link.idle_for = min(link.idle_for, float(announced[1]) - _MARGIN_SECONDS)
        link.idle_since = self._clock.monotonic()

    def is_kept(self, link: KeptConnection) -> bool:
        return self._links.get(link.place) is link

    def close(self, link: KeptConnection, *, at_once: bool) -> None:
        """Close a connection now, or after the response that it receives."""
        if self.is_kept(link):
            del self._links[link.place]
        if at_once:
            link.protocol.close()
        else:
            link.protocol.force_close()

    def close_all(self) -> None:
        """Close all connections, because the bindings have changed. A request that uses one continues."""
        for link in tuple(self._links.values()):
            self.close(link, at_once=link.idle_since is not None)

    def give_up(self, place: Place) -> None:
        """Keep no connection at this BMC for a while: it ended a connection, or it limits or refuses them."""
        self._given_up[place] = self._clock.monotonic() + GIVEN_UP_FOR.total_seconds()

    def is_given_up(self, place: Place) -> bool:
        until = self._given_up.get(place)
        if until is not None and until <= self._clock.monotonic():
            del self._given_up[place]
        return place in self._given_up

    def _closed(self, link: KeptConnection, closed: asyncio.Future[None]) -> None:
        if not closed.cancelled():
            closed.exception()  # otherwise asyncio would log it
        if self.is_kept(link) and link.idle_since is None:  # a call was cancelled, or got no response
            del self._links[link.place]
        elif self.is_kept(link):
            self._ended(link)

    def _ended(self, link: KeptConnection) -> None:
        """Record that the BMC ended a connection, or that no request came in time."""
        del self._links[link.place]
        self.give_up(link.place)
        keep_session(link.tls)
