"""The transport to regions over misbehaving sockets: it never calls a request unsent that may have arrived.

Each server is a real socket that misbehaves as no HTTP server can be configured to. `test_maas_client_faults` tests how
the client treats responses.
"""

from __future__ import annotations

import socket
import ssl
from datetime import timedelta
from pathlib import Path

import anyio
import anyio.abc
import httpx
import pytest

from farrier.services.http.failures import Reason
from farrier.services.http.transport import AioTransport
from farrier.sim.certificates import Authority
from tests.support.asking import PATIENCE, answer, body_of, request, transport, why
from tests.support.sockets import Peer, talking, tls_with

SOON = timedelta(seconds=0.1)

OK = b"HTTP/1.1 200 OK\r\n"
LENGTH = OK + b"Content-Length: 9\r\n\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"


# --- requests that arrived, or may have arrived


@pytest.mark.matrix(strength=1)
@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"HTTP/1.1 2",
        OK + b"Content-Le",
        LENGTH + b"abc",
        CHUNKED + b"9\r\nabc",
        CHUNKED + b"3\r\nabc\r\n",
    ],
    ids=["nothing", "status", "headers", "body", "chunk", "between chunks"],
)
@pytest.mark.parametrize("reset", [False, True])
async def test_a_request_with_a_truncated_response_may_have_arrived(said: bytes, *, reset: bool) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(said)
        if reset:
            await peer.reset()

    async with talking(script) as (port, requests), transport() as sender:
        kind, reason = await why(sender, request(port))
    assert kind in {httpx.RemoteProtocolError, httpx.ReadError}
    assert (reason.reason, reason.arrived) == (Reason.UNREACHABLE, True)
    assert len(requests) == 1


@pytest.mark.parametrize(
    "said",
    [
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"\x00\xff\xfe\r\n\r\n",
        b"HTTP/1.1 abc OK\r\n\r\n",
        b"HTTP/9.9 200 OK\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
        OK + b"Content-Length: x\r\n\r\n",
        OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        OK + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        OK + b"X: \x00\r\n\r\n",
        OK + b"X: " + b"y" * 200_000,
        OK + b"X: y\r\n" * 20_000,
        CHUNKED + b"zz\r\nabc\r\n",
    ],
    ids=[
        "banner",
        "bytes",
        "code",
        "version",
        "other protocol",
        "no length",
        "two lengths",
        "length and chunks",
        "header",
        "endless header",
        "endless headers",
        "chunk",
    ],
)
async def test_a_request_answered_without_http_may_have_arrived_and_its_connection_is_closed(said: bytes) -> None:
    """The server keeps the connection open, so the client must not wait for its end."""
    closed = anyio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        try:
            await peer.say(said)
        finally:
            await peer.until_closed()
            closed.set()

    async with talking(script) as (port, requests), transport() as sender:
        kind, reason = await why(sender, request(port))
        await closed.wait()
    assert kind is httpx.RemoteProtocolError
    assert (reason.reason, reason.arrived) == (Reason.UNREACHABLE, True)
    assert len(requests) == 1


async def test_a_malformed_chunk_ends_the_wait_for_the_body() -> None:
    begun = anyio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(CHUNKED + b"3\r\nabc\r\n")
        await begun.wait()
        await peer.say(b"zz\r\n")
        await peer.until_closed()

    async with talking(script) as (port, _), transport() as sender:
        response = await sender.handle_async_request(request(port))
        begun.set()
        with anyio.fail_after(PATIENCE.total_seconds()), pytest.raises(httpx.RemoteProtocolError):
            await body_of(response)


@pytest.mark.parametrize("reset", [False, True])
async def test_a_body_that_ends_with_the_connection_is_whole_unless_it_was_reset(*, reset: bool) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(OK + b"\r\nabc")
        if reset:
            await peer.reset()

    async with talking(script) as (port, _), transport() as sender:
        if reset:
            kind, reason = await why(sender, request(port))
            assert (kind, reason.arrived) == (httpx.ReadError, True)
        else:
            assert await answer(sender, request(port)) == b"abc"


async def test_a_request_reset_while_its_body_is_sent_may_have_arrived() -> None:
    async def script(peer: Peer) -> None:
        await peer.reset()

    async with talking(script) as (port, _), transport() as sender:
        big = httpx.Request("POST", f"http://127.0.0.1:{port}/", content=b"x" * 1_000_000)
        kind, reason = await why(sender, big)
    assert issubclass(kind, httpx.HTTPError)
    assert (reason.reason, reason.arrived) == (Reason.UNREACHABLE, True)


# --- requests that were never sent


async def test_a_request_to_a_closed_port_did_not_arrive() -> None:
    async with talking(lambda peer: peer.until_closed()) as (port, _):
        pass
    async with transport() as sender:
        kind, reason = await why(sender, request(port))
    assert (kind, reason.reason, reason.arrived) == (httpx.ConnectError, Reason.UNREACHABLE, False)


async def test_an_unresolvable_name_is_reported_as_such() -> None:
    async with transport() as sender:
        kind, reason = await why(sender, request(80, host="nobody.invalid"))
    assert (kind, reason.reason, reason.arrived) == (httpx.ConnectError, Reason.UNREACHABLE, False)
    assert "resolve" in reason.detail


@pytest.mark.parametrize("host", ["127.1", "a..b", "x" * 64 + ".invalid"])
async def test_an_invalid_host_is_a_protocol_failure(host: str) -> None:
    async with transport() as sender:
        kind, reason = await why(sender, request(80, host=host))
    assert issubclass(kind, httpx.HTTPError)
    assert reason.reason is Reason.PROTOCOL


async def test_a_request_whose_tls_handshake_fails_did_not_arrive() -> None:
    for reset in (False, True):

        async def script(peer: Peer, *, reset: bool = reset) -> None:
            if reset:
                await peer.reset()

        async with talking(script) as (port, _), transport() as sender:
            kind, reason = await why(sender, request(port, scheme="https"))
        assert (kind, reason.reason, reason.arrived) == (httpx.ConnectError, Reason.UNREACHABLE, False)


async def test_a_server_that_speaks_no_tls_is_a_failure_of_tls() -> None:
    async with talking(lambda peer: peer.say(b"HTTP/1.1 400 Bad Request\r\n\r\n")) as (port, _), transport() as sender:
        kind, reason = await why(sender, request(port, scheme="https"))
    assert (kind, reason.reason, reason.arrived) == (httpx.ConnectError, Reason.TLS, False)


async def test_an_unfinished_handshake_ends_with_the_connect_timeout() -> None:
    async with talking(lambda peer: peer.until_closed()) as (port, _), transport(connect_timeout=SOON) as sender:
        kind, reason = await why(sender, request(port, scheme="https"))
    assert (kind, reason.reason, reason.arrived) == (httpx.ConnectTimeout, Reason.TIMEOUT, False)


async def test_a_connection_that_is_not_accepted_ends_with_the_connect_timeout() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full, socket.socket() as first, socket.socket() as more:
        for one in (first, more):
            one.setblocking(False)
            one.connect_ex(full.getsockname())
        async with transport(connect_timeout=SOON) as sender:
            kind, reason = await why(sender, request(full.getsockname()[1]))
    assert (kind, reason.reason, reason.arrived) == (httpx.ConnectTimeout, Reason.TIMEOUT, False)


async def test_a_certificate_for_another_name_is_not_trusted_and_the_text_says_why(
    tmp_path: Path, authority: Authority
) -> None:
    tls = tls_with(authority.issue(tmp_path, hosts=("maas.test",)))
    ours = ssl.create_default_context(cafile=authority.write(tmp_path / "ca.pem"))
    async with (
        talking(lambda peer: peer.until_closed(), tls=tls) as (port, _),
        AioTransport(context=ours, connect_timeout=PATIENCE) as sender,
    ):
        kind, reason = await why(sender, request(port, scheme="https"))
    assert (kind, reason.reason, reason.arrived) == (httpx.ConnectError, Reason.TLS, False)
    assert "IP address mismatch" in reason.detail
