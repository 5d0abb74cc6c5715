"""The Python client, against a served site with a real database: both clients have the same promises."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from functools import partial
from http import HTTPStatus
from inspect import isawaitable
from typing import Any, TypeVar

import anyio
import anyio.to_thread
import httpx
import pytest

from farrier.client import (
    AccessDenied,
    ApiError,
    ApiUnreachable,
    AsyncFarrier,
    Change,
    Farrier,
    NewNode,
    NotAccepted,
    ServerFault,
    wire,
)
from farrier.client.calls import ApiCall, Nothing
from farrier.client.remote import Remote
from farrier.config.token_file import ApiToken
from farrier.errors import ConfigError, ExitCode, MalformedRequest
from farrier.model import api_token
from farrier.model.api_token import Scope
from farrier.web.server.access import Access
from farrier.web.server.backend import Backend
from farrier.web.server.serving import serving
from tests.integration.test_web_feed import SETTLED
from tests.support import monitors, pg
from tests.support.web import TOKEN, open_site

T = TypeVar("T")

BEGINNING = "0.0.0.-.-"


@pytest.fixture
async def url(backend: Backend) -> AsyncIterator[str]:
    async with serving(open_site(backend).app, host="127.0.0.1", port=0) as url:
        yield url


@pytest.fixture
async def farrier(url: str) -> AsyncIterator[AsyncFarrier]:
    async with AsyncFarrier(url, token=TOKEN) as farrier:
        yield farrier


async def watched(farrier: AsyncFarrier, after: str, count: int) -> list[Change]:
    """The next changes of the node after a cursor."""
    with anyio.fail_after(pg.PATIENCE.total_seconds()):
        async with aclosing(farrier.watch(after=after, resource="node/gpu-1")) as changes:
            return [await anext(changes) for _ in range(count)]


async def beside(work: Callable[..., T], *given: Any) -> T:
    """The result of the synchronous client, which runs in a thread."""
    return await anyio.to_thread.run_sync(partial(work, *given))


async def test_nodes_are_registered_together_and_listed_by_filters(farrier: AsyncFarrier) -> None:
    registered = await farrier.register(
        NewNode(name="gpu-1", site="ams"), NewNode(name="gpu-2", site="fra", labels={"row": "4"}, bootstrap=True)
    )
    assert [each.name for each in registered] == ["gpu-1", "gpu-2"]
    assert registered[1].bootstrap_token
    assert [node.name async for node in farrier.nodes(site="fra")] == ["gpu-2"]
    assert [node.name async for node in farrier.nodes(failed=True)] == []
    assert [node.name async for node in farrier.nodes(failed=False, site=["ams", "fra"])] == ["gpu-1", "gpu-2"]
    assert (await farrier.node("gpu-2")).node.labels == {"row": "4"}


@pytest.mark.full
async def test_a_list_of_nodes_continues_on_the_next_page(farrier: AsyncFarrier, db: pg.Database) -> None:
    async with db.connect() as conn:
        await conn.execute("SELECT farrier.register_node('gpu-' || n) FROM generate_series(1000, 2001) n")
    assert [node.name async for node in farrier.nodes()] == [f"gpu-{number}" for number in range(1000, 2002)]


@pytest.mark.usefixtures("site")
async def test_an_intent_is_accepted_or_raises_with_its_reason(farrier: AsyncFarrier) -> None:
    accepted = await farrier.submit("gpu-1", "pause", {"reason": "to look at it"}, wait=30, requested_by="ann")
    assert (accepted.status, accepted.requested_by) == ("accepted", "ann")
    await farrier.submit("gpu-1", "unpause", wait=30)
    with pytest.raises(NotAccepted) as refused:
        await farrier.submit("gpu-1", "manage", wait=30)
    assert refused.value.intent.status == "rejected"
    assert refused.value.intent.reason
    assert [intent.action async for intent in farrier.intents(node="gpu-1", status="rejected")] == ["manage"]


@pytest.mark.usefixtures("site")
async def test_details_change_and_are_removed(farrier: AsyncFarrier) -> None:
    await farrier.change("gpu-1", site="ams", labels={"row": "4"})
    changed = (await farrier.node("gpu-1")).node
    assert (changed.site, changed.labels) == ("ams", {"row": "4"})
    await farrier.change("gpu-1", version=changed.version, site=None)
    assert (await farrier.node("gpu-1")).node.site is None


@pytest.mark.usefixtures("site")
async def test_a_change_of_an_old_version_is_refused(farrier: AsyncFarrier) -> None:
    before = (await farrier.node("gpu-1")).node
    await farrier.change("gpu-1", site="ams")
    with pytest.raises(NotAccepted):
        await farrier.change("gpu-1", version=before.version, site="fra")
    assert (await farrier.node("gpu-1")).node.site == "ams"


@pytest.mark.usefixtures("site")
async def test_a_node_is_returned_with_its_clocks_and_the_recommended_next_action(farrier: AsyncFarrier) -> None:
    await farrier.submit("gpu-1", "pause", {"reason": "to look at it"}, wait=30)
    shown = await farrier.node("gpu-1")
    assert (shown.node.name, shown.node.paused) == ("gpu-1", "to look at it")
    assert shown.next_action.command == "farrier node unpause gpu-1"
    assert {clock.layer for clock in shown.clocks} == {"status", "management", "onboarding"}


async def test_a_monitor_states_and_ends_a_condition_that_others_read(
    farrier: AsyncFarrier, backend: Backend, db: pg.Database
) -> None:
    await farrier.register(NewNode(name="gpu-1"))
    async with db.connect() as conn:
        await monitors.grant(conn, "am", ids=["gpu/*"])
    secret = api_token.token("1" * 64)
    tokens = (ApiToken(name="am", sha256=api_token.digest(secret), scopes=(Scope.CONDITIONS,)),)
    site = open_site(backend, Access(tokens))
    async with serving(site.app, host="127.0.0.1", port=0) as url, AsyncFarrier(url, token=secret) as monitor:
        for _ in range(2):
            await monitor.state_condition("gpu-1", "gpu/xid-79", target="GPU-5e", message="fallen off the bus")
        (stands,) = await farrier.conditions("gpu-1")
        assert (stands.name, stands.message) == ("monitor:am/gpu/xid-79/GPU-5e", "fallen off the bus")
        with pytest.raises(ApiError) as refused:
            await monitor.state_condition("gpu-1", "gpu/xid-79", effect="quarantine")
        assert refused.value.status == HTTPStatus.FORBIDDEN

        def end() -> None:
            with Farrier(url, token=secret) as same:
                assert same.end_condition("gpu-1", "gpu/xid-79", target="GPU-5e").reason is None
                assert "nothing ended" in str(same.end_condition("gpu-1", "gpu/xid-79", target="GPU-5e").reason)

        await beside(end)
    assert await farrier.conditions("gpu-1") == ()


async def test_an_intent_without_an_answer_stays_pending(farrier: AsyncFarrier) -> None:
    await farrier.register(NewNode(name="gpu-1"))
    pending = await farrier.submit("gpu-1", "manage", key="once")
    assert pending.status == "pending"
    assert (await farrier.submit("gpu-1", "manage", key="once")).id == pending.id
    assert (await farrier.intent(pending.id)).status == "pending"


@pytest.mark.usefixtures("site")
async def test_changes_are_watched_and_continued_after_a_cursor(farrier: AsyncFarrier, db: pg.Database) -> None:
    await farrier.submit("gpu-1", "set_bmc", {"address": "10.0.0.1", "credential": "file:x"}, wait=30)
    await db.advance(SETTLED)
    first, second = await watched(farrier, BEGINNING, 2)
    assert {first.layer, second.layer} <= {"status", "management", "onboarding"}
    assert await watched(farrier, first.cursor, 1) == [second]


async def test_changes_after_a_cursor_are_watched(farrier: AsyncFarrier, url: str, db: pg.Database) -> None:
    with Farrier(url) as synchronous:
        cursors = await farrier.cursor(), await anyio.to_thread.run_sync(synchronous.cursor)
    await farrier.register(NewNode(name="gpu-1"))
    await db.advance(SETTLED)
    for cursor in cursors:
        (change,) = await watched(farrier, cursor, 1)
        assert change.name == "gpu-1"


async def test_a_refusal_names_what_is_wrong(farrier: AsyncFarrier, url: str) -> None:
    with pytest.raises(ApiError, match="gpu-9") as missing:
        await farrier.node("gpu-9")
    assert missing.value.status == 404
    with pytest.raises(ApiError, match="color"):
        [node async for node in farrier.nodes(color="red")]
    async with AsyncFarrier(url, token="wrong") as stranger:
        with pytest.raises(AccessDenied, match="token"):
            await stranger.submit("gpu-1", "manage")


async def test_an_unreachable_server_is_an_error_with_its_url() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    async with AsyncFarrier(url) as farrier:
        with pytest.raises(ApiUnreachable, match=url):
            await farrier.node("gpu-1")


class Flaky:
    """A server whose first connection fails. It counts the requests that were sent."""

    def __init__(self) -> None:
        self.sent = 0

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.sent += 1
        if self.sent == 1:
            raise httpx.ConnectError("refused", request=request)
        return httpx.Response(204)


@pytest.mark.parametrize("client", [AsyncFarrier, Farrier])
async def test_after_a_failed_connection_only_a_request_that_may_be_repeated_is_sent_again(
    client: type[AsyncFarrier | Farrier], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Flaky()
    farrier = client("http://elsewhere", transport=httpx.MockTransport(server))

    async def respond_to(call: ApiCall[Nothing]) -> Nothing:
        answer = farrier.call(call)
        return await answer if isawaitable(answer) else answer

    monkeypatch.setattr(wire, "PAUSE_SECONDS", 0)
    with pytest.raises(ApiUnreachable, match=r"elsewhere.*refused"):
        await respond_to(ApiCall(method="POST", path="/nodes", type=Nothing, again=False))
    assert server.sent == 1
    server.sent = 0
    assert await respond_to(ApiCall(path="/nodes", type=Nothing)) == Nothing()
    assert server.sent == 2


def elsewhere(status: int, **response: Any) -> AsyncFarrier:
    """The client of a server that always responds this."""
    transport = httpx.MockTransport(lambda _: httpx.Response(status, **response))
    return AsyncFarrier("http://elsewhere", transport=transport)


@pytest.mark.parametrize("status", [502, 503, 504])
async def test_a_server_that_is_unavailable_is_unreachable_and_no_refusal(status: int) -> None:
    async with elsewhere(status) as farrier:
        with pytest.raises(ApiUnreachable, match=rf"elsewhere.*{status}"):
            await farrier.register(NewNode(name="gpu-1"))


async def test_a_fault_of_the_server_is_no_refusal() -> None:
    async with elsewhere(500) as farrier:
        with pytest.raises(ServerFault) as fault:
            await farrier.submit("gpu-1", "manage")
    assert fault.value.exit_code is ExitCode.FAILED


async def test_a_response_of_another_server_is_reported_as_such() -> None:
    async with elsewhere(200, html="<p>welcome</p>") as farrier:
        with pytest.raises(ApiError, match=r"elsewhere.*is not a response of farrier's API"):
            await farrier.node("gpu-1")


@pytest.mark.parametrize("status", [200, 301])
async def test_a_stream_of_another_server_is_an_error_instead_of_endless_attempts(status: int) -> None:
    async with elsewhere(status, html="<p>log in</p>") as farrier:
        with pytest.raises(ApiError, match=r"elsewhere.* responded"):
            await anext(farrier.watch())
        with pytest.raises(ApiError, match=r"elsewhere.* responded"):
            await farrier.cursor()


def test_a_stream_of_another_server_is_an_error_of_the_synchronous_client_too() -> None:
    transport = httpx.MockTransport(lambda _: httpx.Response(301, html="<p>log in</p>"))
    with Farrier("http://elsewhere", transport=transport) as farrier, pytest.raises(ApiError, match="301"):
        next(farrier.watch())


async def test_a_redirect_is_an_error_with_its_target_and_never_a_success() -> None:
    async with elsewhere(301, headers={"Location": "https://farrier.example/"}) as farrier:
        lift = ApiCall(method="POST", path="/sites/ams/brake-lift", type=Nothing)
        for work in (farrier.node("gpu-1"), farrier.call(lift)):
            with pytest.raises(ApiError, match=r"responded 301 Moved Permanently to https://farrier.example/"):
                await work


@pytest.mark.parametrize("token", ["", "fat_0123\n", " fat_0123", "fat_ä123", "fat 0123"])
def test_a_token_that_is_no_header_is_refused_without_showing_it(token: str) -> None:
    with pytest.raises(ConfigError, match="token: expected the line") as refused:
        Farrier("https://farrier.example", token=token)
    assert "123" not in str(refused.value)


def test_a_url_with_a_password_is_refused_without_showing_it() -> None:
    with pytest.raises(ConfigError, match="without user name and password") as refused:
        Farrier("https://ann:s3cret@farrier.example")
    assert "s3cret" not in str(refused.value)


async def test_an_empty_list_of_statuses_selects_all_tasks(farrier: AsyncFarrier) -> None:
    assert (await Remote(farrier).tasks(None, [])).rows == ()


async def test_nodes_are_not_read_as_resources_of_a_kind(farrier: AsyncFarrier) -> None:
    with pytest.raises(MalformedRequest, match=r"nodes\(\) and node\(\)"):
        await farrier.resource("node", "gpu-1")
    with pytest.raises(MalformedRequest, match=r"nodes\(\) and node\(\)"):
        [each async for each in farrier.resources("node")]


@pytest.mark.parametrize("url", ["farrier.example", "ftp://farrier.example", "http://", ""])
def test_a_url_without_a_scheme_or_host_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="expected the URL of farrier"):
        Farrier(url)


@pytest.mark.usefixtures("site")
async def test_the_synchronous_client_does_the_same(url: str, db: pg.Database) -> None:
    def work() -> list[Any]:
        with Farrier(url, token=TOKEN) as farrier:
            farrier.register(NewNode(name="gpu-2", site="ams"))
            accepted = farrier.submit("gpu-1", "pause", {"reason": "x"}, wait=30)
            change = next(farrier.watch(after=BEGINNING, resource="node/gpu-1"))
            return [
                [node.name for node in farrier.nodes()],
                accepted.status,
                farrier.node("gpu-2").node.site,
                farrier.intent(accepted.id, wait=1).status,
                [intent.id for intent in farrier.intents()],
                [kind.kind for kind in farrier.kinds()] != [],
                list(farrier.resources("network_segment")),
                farrier.controllers().controllers != (),
                change.name,
            ]

    await db.advance(SETTLED)
    found = await beside(work)
    assert found == [["gpu-1", "gpu-2"], "accepted", "ams", "accepted", [1], True, [], True, "gpu-1"]
