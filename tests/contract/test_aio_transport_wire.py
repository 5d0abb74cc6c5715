"""The transport to regions without faults: which connections it keeps and reuses, and the bytes that it sends.

Each server is real. `test_aio_transport` tests what becomes of a request when the connection fails.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import anyio
import anyio.lowlevel
import httpx
import msgspec
import pytest

from farrier.model.maas.reading import MaasError, MaasFailure
from farrier.services.http.client import Endpoint, HttpClient, Pass, Times, open_client
from farrier.services.http.messages import HttpRequest, HttpResponse
from farrier.services.maas.requests import MaasOperation
from farrier.services.maas.service import LARGEST_BODY_BYTES, MAAS
from tests.support.answers import http
from tests.support.asking import PATIENCE, answer, request, transport, why
from tests.support.clock import HandClock
from tests.support.observed import Observed
from tests.support.sockets import Peer, talking

OK = b"HTTP/1.1 200 OK\r\n"
DONE = http("200 OK", "Set-Cookie: sessionid=1", body=b"done")


async def test_a_connection_is_kept_for_the_next_request() -> None:
    opened = 0

    async def script(peer: Peer) -> None:
        nonlocal opened
        opened += 1
        while True:
            await peer.request()
            await peer.say(DONE)

    async with talking(script) as (port, requests), transport() as sender:
        for method in ("GET", "POST", "DELETE", "GET"):
            assert await answer(sender, request(port, method)) == b"done"
    assert (opened, len(requests)) == (1, 4)
    assert not any(b"cookie" in one.lower() for one in requests)


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_request_lost_with_a_kept_connection_is_not_sent_again(method: str) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(DONE)
        await peer.request()

    async with talking(script) as (port, requests), transport() as sender:
        assert await answer(sender, request(port)) == b"done"
        kind, reason = await why(sender, request(port, method))
    assert (kind, reason.arrived) == (httpx.RemoteProtocolError, True)
    assert len(requests) == 2


@pytest.mark.parametrize("unasked", [b"", DONE], ids=["end", "answer"])
async def test_a_kept_connection_with_unread_bytes_is_not_reused(unasked: bytes) -> None:
    """On such a connection the request could be lost, or get the unread bytes as its response."""
    said = anyio.Event()
    opened = 0

    async def script(peer: Peer) -> None:
        nonlocal opened
        opened += 1
        request = await peer.request()
        await peer.say(DONE if opened == 1 else http("200 OK", body=request.split()[0]))
        if opened == 1 and unasked:
            await peer.say(unasked)
            said.set()
            await peer.until_closed()
        elif opened == 1:
            await peer.end()
            said.set()
        else:
            await peer.until_closed()

    async with talking(script) as (port, requests), transport() as sender:
        assert await answer(sender, request(port)) == b"done"
        await said.wait()
        assert await answer(sender, request(port, "DELETE")) == b"DELETE"
    assert (opened, len(requests)) == (2, 2)


async def test_the_connection_of_a_cancelled_request_is_closed() -> None:
    asked, closed = anyio.Event(), anyio.Event()
    opened = 0

    async def script(peer: Peer) -> None:
        nonlocal opened
        opened += 1
        await peer.request()
        if opened == 1:
            asked.set()
            await peer.until_closed()
            closed.set()
        else:
            await peer.say(DONE)

    async with talking(script) as (port, _), transport() as sender:
        async with anyio.create_task_group() as callers:
            callers.start_soon(sender.handle_async_request, request(port))
            await asked.wait()
            callers.cancel_scope.cancel()
        with anyio.fail_after(PATIENCE.total_seconds()):
            await closed.wait()
        assert await answer(sender, request(port)) == b"done"
    assert opened == 2


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_after_a_cancellation_at_any_moment_each_request_gets_its_own_response(method: str) -> None:
    """The requests are cancelled after different numbers of turns of the event loop, from first to last."""

    async def script(peer: Peer) -> None:
        while True:
            target = (await peer.request()).split()[1]
            whole = http("200 OK", body=target * 1_000)
            for start in range(0, len(whole), 1_000):
                await peer.say(whole[start : start + 1_000])
                await anyio.lowlevel.checkpoint()

    answered = 0
    async with talking(script) as (port, requests), transport() as sender:

        async def ask(name: str) -> None:
            nonlocal answered
            asked = httpx.Request(method, f"http://127.0.0.1:{port}/{name}", content=b"x" if method == "POST" else b"")
            assert await answer(sender, asked) == f"/{name}".encode() * 1_000
            answered += 1

        for turns in range(40):
            async with anyio.create_task_group() as cancelled:
                cancelled.start_soon(ask, f"cancelled{turns}")
                for _ in range(turns):
                    await anyio.lowlevel.checkpoint()
                cancelled.cancel_scope.cancel()
            await ask(f"whole{turns}")
    assert 40 < answered < 70, "some were cancelled, and some were not"
    assert len({one.split()[1] for one in requests}) == len(requests), "none was sent twice"


# --- what is on the wire


@asynccontextmanager
async def client_to(port: int, *, user: str = "") -> AsyncIterator[HttpClient[MaasError]]:
    limit = timedelta(seconds=15)
    root = f"http://{user}127.0.0.1:{port}/MAAS/api/2.0/"
    endpoint = Endpoint(root=root, ca_file="", read_timeout=limit, change_timeout=limit)

    async def credential() -> Pass:
        return Pass({"Authorization": "OAuth x=%26y"}, ())

    times = Times(clock=HandClock())
    async with open_client(MAAS, endpoint, credential=credential, times=times, observer=Observed("maas")) as client:
        yield client


def whole(answer: HttpResponse) -> HttpResponse:
    return answer


async def once(peer: Peer) -> None:
    await peer.request()
    await peer.say(DONE)


def heads(sent: bytes) -> tuple[bytes, dict[str, bytes], bytes]:
    """The first line, the headers and the body."""
    head, _, body = sent.partition(b"\r\n\r\n")
    first, *lines = head.split(b"\r\n")
    pairs = [line.partition(b": ") for line in lines]
    return first, {name.decode().title(): value for name, _, value in pairs}, body


COMMON = {"Accept": b"*/*", "Accept-Encoding": b"identity", "User-Agent": b"farrier", "Authorization": b"OAuth x=%26y"}
CHANGE = HttpRequest(operation=MaasOperation.CREATE, method="POST", path="machines/")


@pytest.mark.parametrize(
    ("asked", "first", "more", "body"),
    [
        (
            HttpRequest(operation=MaasOperation.MACHINE, path="machines/abc/"),
            b"GET /MAAS/api/2.0/machines/abc/ HTTP/1.1",
            {},
            b"",
        ),
        (
            HttpRequest(
                operation=MaasOperation.MACHINES,
                path="machines/",
                query=(("id", "a/b c"), ("id", "ü%2F&+"), ("x", "")),
            ),
            b"GET /MAAS/api/2.0/machines/?id=a%2Fb+c&id=%C3%BC%252F%26%2B&x= HTTP/1.1",
            {},
            b"",
        ),
        (
            msgspec.structs.replace(CHANGE, query=(("op", "x"),), form=(("m", "52:54"), ("m", "a b"), ("p", "c&o%1ü"))),
            b"POST /MAAS/api/2.0/machines/?op=x HTTP/1.1",
            {"Content-Type": b"application/x-www-form-urlencoded", "Content-Length": b"33"},
            b"m=52%3A54&m=a+b&p=c%26o%251%C3%BC",
        ),
        (CHANGE, b"POST /MAAS/api/2.0/machines/ HTTP/1.1", {"Content-Length": b"0"}, b""),
    ],
    ids=["read", "query", "form", "no form"],
)
async def test_a_request_has_exactly_these_bytes_on_the_wire(
    asked: HttpRequest, first: bytes, more: dict[str, bytes], body: bytes
) -> None:
    async with talking(once) as (port, requests), client_to(port, user="root:calvin@") as client:
        await client.send(asked, whole)
    expected = {"Host": f"127.0.0.1:{port}".encode(), **COMMON, **more}
    if body:
        expected["Content-Length"] = str(len(body)).encode()
    assert heads(requests[0]) == (first, expected, body)


async def test_a_proxy_of_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with talking(once) as (port, _), client_to(port) as client:
        assert (await client.send(CHANGE, whole)).body == b"done"


async def test_a_compressed_body_is_not_decompressed() -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(http("200 OK", "Content-Encoding: gzip", body=b"as it is"))

    async with talking(script) as (port, _), client_to(port) as client:
        assert (await client.send(CHANGE, whole)).body == b"as it is"


async def test_an_oversized_body_is_not_read_past_the_bound() -> None:
    sent = 0
    ended = anyio.Event()

    async def script(peer: Peer) -> None:
        nonlocal sent
        await peer.request()
        await peer.say(OK + b"\r\n")
        try:
            while True:
                await peer.say(b"x" * 65_536)
                sent += 65_536
        finally:
            ended.set()

    async with talking(script) as (port, _), client_to(port) as client:
        with anyio.fail_after(PATIENCE.total_seconds()), pytest.raises(MaasError, match="larger") as refused:
            await client.send(CHANGE, whole)
        await ended.wait()
    assert (refused.value.failure, refused.value.ambiguous) == (MaasFailure.PROTOCOL, True)
    assert sent < 3 * LARGEST_BODY_BYTES, "the kernel buffers some more"
