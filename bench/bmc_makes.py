"""How the web servers of BMCs treat connections, for a fleet of simulated BMCs that is mixed as real fleets are.

`bench.bmc_server` behaves accordingly. The behaviours come from the sources named here. How often each occurs is an
assumption: a GPU fleet has mostly OpenBMC, and a few of all others.
"""

from __future__ import annotations

import msgspec

_MINUTES = 60.0


class Make(msgspec.Struct, frozen=True, kw_only=True):
    """The behaviour of one kind of web server. A connection without a request for `idle` seconds is closed. `headers`
    are sent with each response. `most` is the largest number of open connections; others are closed without a response.
    With `resets`, the second request on a connection is answered by a reset."""

    name: str
    source: str
    of_ten: int
    idle: float
    headers: str = ""
    most: int = 64
    resets: bool = False


OPENBMC = Make(
    name="OpenBMC",
    source="openbmc/bmcweb, http/http_connection.hpp: 15 minutes between requests, at most 200 connections",
    of_ten=4,
    idle=15 * _MINUTES,
    most=200,
)
MIX = (
    OPENBMC,
    Make(
        name="iDRAC",
        source="responses of an iDRAC 8: Keep-Alive: timeout=60, max=199",
        of_ten=2,
        idle=60.0,
        headers="Keep-Alive: timeout=60, max=199\r\nConnection: Keep-Alive\r\n",
    ),
    Make(
        name="MegaRAC",
        source="AMI MegaRAC is behind lighttpd, whose server.max-keep-alive-idle is 5 seconds by default",
        of_ten=2,
        idle=5.0,
    ),
    Make(
        name="iLO",
        source="libredfish and nv-redfish: an iLO before 7 announces kept connections, and resets them at reuse",
        of_ten=1,
        idle=15 * _MINUTES,
        headers="Connection: keep-alive\r\n",
        resets=True,
    ),
    Make(
        name="closing",
        source="sushy-emulator, and what sushy requests of every BMC: Connection: close",
        of_ten=1,
        idle=0.0,
        headers="Connection: close\r\n",
    ),
)
_IN_TURN = tuple(make for turn in range(max(make.of_ten for make in MIX)) for make in MIX if turn < make.of_ten)


def of(number: int, *, mixed: bool) -> Make:
    """Return the make of the BMC with this number. In a fleet that is not mixed, all keep connections."""
    return _IN_TURN[number % len(_IN_TURN)] if mixed else OPENBMC
