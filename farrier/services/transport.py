"""HTTP to BMCs: one aiohttp session per TLS policy, shared by all BMCs under it.

Opened by the BMC client for as long as it lives. Connections are not kept: BMCs choke on long-lived ones, and
each idle TLS connection would cost a quarter of a megabyte. No cookies, no proxy or netrc from the
environment, no limit of aiohttp's own (its queueing would count as the BMC's time), no request is sent twice,
and no answer is read past a bound.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta

import aiohttp
from typing_extensions import override

from farrier.services.address import Networks
from farrier.services.trust import Trust, connector_ssl

# A system's resource has 2 to 20 KiB; whoever sends more than this is not answering the question.
LARGEST_BODY_BYTES = 1024 * 1024


class BodyTooLarge(aiohttp.ClientPayloadError):
    """An answer went past `LARGEST_BODY_BYTES` and was cut off."""


class _Bounded(aiohttp.ClientResponse):
    """A response that stops reading at the bound, before or after decompression."""

    @override
    async def read(self) -> bytes:
        if self._body is None:
            body = bytearray()
            try:
                async for chunk in self.content.iter_any():
                    body += chunk
                    if len(body) > LARGEST_BODY_BYTES:
                        raise BodyTooLarge
            except BaseException:
                self.close()
                raise
            self._body = bytes(body)
        return await super().read()


@asynccontextmanager
async def open_sessions(
    trusts: Collection[Trust], *, networks: Networks, connect_timeout: timedelta
) -> AsyncIterator[Mapping[Trust, aiohttp.ClientSession]]:
    """A session for each policy, closed at the end. Raises `ConfigError` for an unusable policy."""
    async with AsyncExitStack() as stack:
        sessions = {}
        for trust in trusts:
            session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    ssl=connector_ssl(trust),
                    limit=0,
                    force_close=True,
                    # In order, so that the first address outside the networks ends the attempt.
                    happy_eyeballs_delay=None,
                    socket_factory=networks.socket,
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                response_class=_Bounded,
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=connect_timeout.total_seconds()),
                trust_env=False,
            )
            # Or a GET would be sent twice, and a login with it, when the BMC hangs up; there is no other switch for it.
            session._retry_connection = False
            sessions[trust] = await stack.enter_async_context(session)
        yield sessions
