"""The transport to regions over misbehaving sockets: it never reports a request as not sent that may have arrived.

Each server is real and behaves as no HTTP server can be brought to. How the client treats responses is tested in
`test_maas_client_faults`.
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
from anyio.streams.tls import TLSListener

from farrier.services.aio_transport import AioTransport
from farrier.services.http_failures import Reason
from farrier.sim.certificates import Authority
from tests.support.asking import PATIENCE, answer, body_of, request, transport, why
from tests.support.sockets import Peer, talking

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
async def test_an_answer_that_ends_early_leaves_the_request_open(said: bytes, *, reset: bool) -> None:
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
async def test_what_is_not_http_leaves_the_request_open_and_ends_the_connection(said: bytes) -> None:
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


async def test_a_body_that_stops_being_http_ends_the_waiting_for_its_rest() -> None:
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
async def test_a_body_that_the_end_of_the_connection_ends_is_whole_unless_that_was_a_reset(*, reset: bool) -> None:
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


async def test_a_reset_while_the_body_is_sent_leaves_the_request_open() -> None:
    async def script(peer: Peer) -> None:
        await peer.reset()

    async with talking(script) as (port, _), transport() as sender:
        big = httpx.Request("POST", f"http://127.0.0.1:{port}/", content=b"x" * 1_000_000)
        kind, reason = await why(sender, big)
    assert issubclass(kind, httpx.HTTPError)
    assert (reason.reason, reason.arrived) == (Reason.UNREACHABLE, True)


# --- requests that were never sent


async def test_whoever_is_not_there_got_nothing() -> None:
    async with talking(lambda peer: peer.until_closed()) as (port, _):
        pass
    async with transport() as sender:
        kind, reason = await why(sender, request(port))
    assert (kind, reason.reason, reason.arrived) == (httpx.ConnectError, Reason.UNREACHABLE, False)


async def test_a_name_that_does_not_resolve_is_said_to_be_that() -> None:
    async with transport() as sender:
        kind, reason = await why(sender, request(80, host="nobody.invalid"))
    assert (kind, reason.reason, reason.arrived) == (httpx.ConnectError, Reason.UNREACHABLE, False)
    assert "resolve" in reason.detail


@pytest.mark.parametrize("host", ["127.1", "a..b", "x" * 64 + ".invalid"])
async def test_a_host_that_is_none_is_a_failure_of_a_known_class(host: str) -> None:
    async with transport() as sender:
        kind, reason = await why(sender, request(80, host=host))
    assert issubclass(kind, httpx.HTTPError)
    assert reason.reason is Reason.PROTOCOL


async def test_a_handshake_that_the_server_ends_was_no_request() -> None:
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


async def test_a_handshake_that_does_not_end_ends_with_the_time_for_connecting() -> None:
    async with talking(lambda peer: peer.until_closed()) as (port, _), transport(connect_timeout=SOON) as sender:
        kind, reason = await why(sender, request(port, scheme="https"))
    assert (kind, reason.reason, reason.arrived) == (httpx.ConnectTimeout, Reason.TIMEOUT, False)


async def test_a_connection_that_is_not_taken_ends_with_the_time_for_connecting() -> None:
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
    files = authority.issue(tmp_path, hosts=("maas.test",))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(files.certificate, files.key)
    ours = ssl.create_default_context(cafile=authority.write(tmp_path / "ca.pem"))
    tcp = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with TLSListener(tcp, context) as listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, lambda stream: stream.aclose())
        port = tcp.extra(anyio.abc.SocketAttribute.local_port)
        async with AioTransport(context=ours, connect_timeout=PATIENCE) as sender:
            kind, reason = await why(sender, request(port, scheme="https"))
        tasks.cancel_scope.cancel()
    assert (kind, reason.reason, reason.arrived) == (httpx.ConnectError, Reason.TLS, False)
    assert "IP address mismatch" in reason.detail
