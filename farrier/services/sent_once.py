"""A middleware of aiohttp: a request is sent once, whatever its method, and who sends again is for the caller to say.

Used by both transports. aiohttp itself sends a GET again when the connection ends.
"""

from __future__ import annotations

import aiohttp


class Lost(aiohttp.ClientConnectionError):
    """The connection ended on a request, for this reason. aiohttp does not send again after it."""

    def __init__(self, reason: aiohttp.ClientError) -> None:
        super().__init__(*reason.args)
        self.reason = reason


async def sent_once(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """Raises `Lost` for what aiohttp would send again after."""
    try:
        return await handler(request)
    except aiohttp.ClientConnectorError:  # it was never sent, and is not sent again
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise Lost(error) from error
