"""Responses that are unusual but readable: redirects, absolute links, control characters, large headers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from farrier.config import BmcTrustConfig
from farrier.model.intents.params import PowerRequest
from farrier.model.machine.bmc import BmcAuth, BmcError, BmcFailure, BmcReading, BmcTarget, PowerState
from tests.support.bmc import (
    CREDENTIAL,
    MANAGER,
    RESET,
    ROOT,
    SESSIONS,
    SYSTEM,
    SYSTEMS,
    FakeBmc,
    Garbage,
    Page,
    at,
    connect,
    members,
    system,
)


async def verify(bmc: FakeBmc, path: str | None = SYSTEM, **settings: Any) -> BmcReading:
    async with connect(bmc.ca_file, **settings) as client:
        return await client.verify(at(bmc, path))


async def failure(bmc: FakeBmc, path: str | None = SYSTEM, **settings: Any) -> BmcError:
    with pytest.raises(BmcError) as raised:
        await verify(bmc, path, **settings)
    return raised.value


def moved(place: str, status: int = 308) -> Page:
    return Page(status, b"", (("Location", place),))


@pytest.mark.parametrize("status", [301, 302, 307, 308])
@pytest.mark.parametrize("form", ["{path}/", "{url}{path}/", "./Self/"], ids=["path", "URL", "relative"])
async def test_a_redirect_to_another_path_of_the_bmc_is_followed_for_reads(
    bmc: FakeBmc, status: int, form: str
) -> None:
    bmc.answer(SYSTEM, moved(form.format(path=SYSTEM, url=bmc.url), status))
    bmc.answer(f"{SYSTEM}/", system())
    assert (await verify(bmc)).power is PowerState.ON


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_redirect_of_the_login_that_opens_a_session_is_followed(bmc: FakeBmc, status: int) -> None:
    before = "/redfish/v1/OldSessions"
    bmc.answer(ROOT, {"Systems": {"@odata.id": SYSTEMS}, "Links": {"Sessions": {"@odata.id": before}}})
    bmc.anyway[before] = moved(SESSIONS, status)
    assert (await verify(bmc, auth=BmcAuth.SESSION)).power is PowerState.ON
    assert [request.path for request in bmc.requests if request.method == "POST"] == [before, SESSIONS]
    assert bmc.sessions == set()


@pytest.mark.parametrize(
    "place",
    [
        "https://192.0.2.1:{port}{path}/",
        "http://127.0.0.1:{port}{path}/",
        "https://127.0.0.1:1{path}/",
        "//evil.example:{port}{path}/",
        "{path}",
    ],
    ids=["host", "scheme", "port", "no scheme", "itself"],
)
async def test_a_redirect_to_another_origin_is_not_followed(bmc: FakeBmc, place: str) -> None:
    bmc.answer(SYSTEM, moved(place.format(path=SYSTEM, port=bmc.url.rpartition(":")[2])))
    error = await failure(bmc)
    assert error.failure is BmcFailure.PROTOCOL
    assert "HTTP 308, a redirect" in error.detail
    assert len(bmc.requests) == 1


async def test_redirects_in_a_circle_end(bmc: FakeBmc) -> None:
    bmc.answer(SYSTEM, moved(f"{SYSTEM}/"))
    bmc.answer(f"{SYSTEM}/", moved(SYSTEM))
    assert (await failure(bmc)).failure is BmcFailure.PROTOCOL
    assert len(bmc.requests) < 6


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_redirect_of_an_action_is_not_followed(bmc: FakeBmc, status: int) -> None:
    bmc.reset_answer, bmc.power_after = moved(f"{RESET}/", status), ()
    async with connect(bmc.ca_file) as client:
        with pytest.raises(BmcError, match="redirect"):
            await client.set_power(at(bmc), PowerRequest.OFF)
    assert bmc.methods["POST"] == 1


@pytest.mark.parametrize(
    "origin",
    ["{url}", "https://127.0.0.1", "http://127.0.0.1", "http://127.0.0.1:80", "HTTPS://127.0.0.1:443", "//127.0.0.1"],
)
async def test_an_absolute_link_on_the_bmcs_own_host_is_a_link(bmc: FakeBmc, origin: str) -> None:
    own = origin.format(url=bmc.url)
    bmc.answer(ROOT, {"Systems": {"@odata.id": f"{own}{SYSTEMS}"}})
    bmc.answer(SYSTEMS, members(f"{own}{SYSTEM}"))
    bmc.power_after = None
    action = {"#ComputerSystem.Reset": {"target": f"{own}{RESET}"}}
    bmc.answer(SYSTEM, system(Links={"ManagedBy": [{"@odata.id": f"{own}{MANAGER}"}]}, Actions=action))
    async with connect(bmc.ca_file) as client:
        assert (await client.verify(at(bmc, None))).system_path == SYSTEM
        await client.set_power(at(bmc), PowerRequest.OFF)
    assert bmc.resets == ["ForceOff"]


async def test_an_absolute_link_with_the_address_of_the_bmc_is_a_link_if_it_was_called_by_name(bmc: FakeBmc) -> None:
    port = bmc.url.rpartition(":")[2]
    bmc.answer(SYSTEM, system(Links={"ManagedBy": [{"@odata.id": f"{bmc.url}{MANAGER}"}]}))

    async def lookup(_host: str) -> tuple[str, ...]:
        return ("127.0.0.1",)

    named = BmcTarget(address=f"https://bmc-1.example:{port}", credential=CREDENTIAL, system_path=SYSTEM)
    async with connect(bmc.ca_file, lookup=lookup, trust=BmcTrustConfig(insecure=True)) as client:
        assert (await client.verify(named)).power is PowerState.ON


@pytest.mark.parametrize(
    "link", [f"https://192.0.2.1{MANAGER}", f"https://127.0.0.1.evil.example{MANAGER}", f"https://a@127.0.0.1{MANAGER}"]
)
async def test_an_absolute_link_to_another_host_is_not_followed(bmc: FakeBmc, link: str) -> None:
    bmc.answer(SYSTEM, system(Links={"ManagedBy": [{"@odata.id": link}]}))
    await verify(bmc)  # by the manager that the BMC itself lists
    assert {request.path for request in bmc.requests} == {SYSTEM, "/redfish/v1/Managers", MANAGER}


@pytest.mark.parametrize("character", ["\0", "\x01", "\x1f", "\n", "\t", "\x7f"])
async def test_a_bare_control_character_in_a_text_is_accepted(bmc: FakeBmc, character: str) -> None:
    body = json.dumps(system(SerialNumber="SN-0001@")).replace("@", character).encode()
    bmc.answer(SYSTEM, Page(200, body))
    assert (await verify(bmc)).serial == "SN-0001"


@pytest.mark.parametrize("around", [(b"", b"\0"), (b"\0\0", b"\0\r\n"), (b"\xef\xbb\xbf", b"\0\0\0")])
async def test_zero_bytes_around_a_resource_are_ignored(bmc: FakeBmc, around: tuple[bytes, bytes]) -> None:
    bmc.answer(SYSTEM, Page(200, around[0] + json.dumps(system()).encode() + around[1]))
    assert (await verify(bmc)).serial == "SN-0001"


@pytest.mark.parametrize("size", [9 * 1024, 60 * 1024])
async def test_a_large_header_is_read(bmc: FakeBmc, size: int) -> None:
    policy = ("Content-Security-Policy", "x" * size)
    bmc.answer(SYSTEM, Page(200, json.dumps(system()).encode(), (policy,)))
    assert (await verify(bmc)).power is PowerState.ON


HEAD = b"HTTP/1.1 200 OK\r\nConnection: close\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        pytest.param(HEAD + b"X: " + b"x" * 70_000 + b"\r\n\r\n{}", "a header of the response is longer", id="header"),
        pytest.param(
            HEAD + b"Content-Length: 2\r\n" + CHUNKED + b"\r\n2\r\n{}\r\n0\r\n\r\n", "both Content-Length", id="both"
        ),
        pytest.param(
            HEAD + CHUNKED + b"Content-Length: 2\r\n\r\n2\r\n{}\r\n0\r\n\r\n", "both Content-Length", id="both, turned"
        ),
        pytest.param(
            HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", "duplicate content-length", id="two lengths"
        ),
        pytest.param(b"SSH-2.0-OpenSSH_9.6\r\n", "the response is not HTTP", id="ssh"),
    ],
)
async def test_a_response_that_violates_http_is_named_as_what_it_is(bmc: FakeBmc, content: bytes, says: str) -> None:
    bmc.answer(SYSTEM, Garbage(content))
    error = await failure(bmc)
    assert error.failure is BmcFailure.PROTOCOL
    assert says in error.detail
