"""Sessions, where they are configured: one per BMC, used by every call, and none left open.

Tested on our own fake; the emulator, which has none, is used to test a BMC without sessions.
"""

from __future__ import annotations

import anyio
import msgspec
import pytest

from farrier.model.intents.params import PowerRequest
from farrier.model.machine.bmc import BmcAuth, BmcError, BmcFailure, PowerState
from tests.support.bmc import (
    PASSWORD,
    SESSIONS,
    SYSTEM,
    USERNAME,
    Answer,
    FakeBmc,
    HangUp,
    Page,
    at,
    connect,
    failure,
    system,
)
from tests.support.observed import Observed

SESSION = BmcAuth.SESSION


async def test_one_session_serves_every_call_and_ends_with_the_client(bmc: FakeBmc) -> None:
    observed = Observed("bmc")
    async with connect(bmc.ca_file, auth=SESSION, observed=observed) as client:
        assert (await client.verify(at(bmc, system_path=None))).power is PowerState.ON
        before = len(bmc.requests)
        await client.read(at(bmc))
        assert len(bmc.requests) == before + 1
        assert (await client.set_power(at(bmc), PowerRequest.OFF)).power is PowerState.OFF
        assert len(bmc.sessions) == 1
    assert bmc.sessions == set()
    assert bmc.logins == 1
    assert bmc.methods["DELETE"] == 1
    assert [request for request in bmc.requests if request.authorization is not None] == []
    # The session service does not say without a login whether it is enabled.
    assert observed.requests[:2] == [("root", "ok"), ("session", "auth")]
    assert observed.requests[2:4] == [("session", "ok"), ("systems", "ok")]


async def test_calls_at_the_same_time_share_a_session(bmc: FakeBmc) -> None:
    async with connect(bmc.ca_file, auth=SESSION) as client, anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(client.read, at(bmc))
    assert bmc.logins == 1


async def test_basic_authentication_opens_no_session(bmc: FakeBmc) -> None:
    async with connect(bmc.ca_file) as client:
        await client.verify(at(bmc, system_path=None))
        await client.set_power(at(bmc), PowerRequest.OFF)
    assert SESSIONS not in {request.path for request in bmc.requests}


# An iDRAC8 closes the connection within the body of the 401: bb-Ricardo/check_redfish, issue 90.
@pytest.mark.parametrize("refusal", [Page(401), HangUp(401)], ids=repr)
async def test_a_session_that_the_bmc_ended_is_replaced_by_one_login(bmc: FakeBmc, refusal: Answer) -> None:
    bmc.refusal = refusal
    async with connect(bmc.ca_file, auth=SESSION) as client:
        await client.read(at(bmc))
        bmc.sessions.clear()
        assert (await client.read(at(bmc))).power is PowerState.ON
        assert len(bmc.sessions) == 1
    assert bmc.logins == 2
    assert bmc.sessions == set()


async def test_no_session_stays_at_a_bmc_that_refuses_new_sessions(bmc: FakeBmc) -> None:
    """The BMC responds 401 to a page after a good login: each try may cost a login, but leaves no session."""
    bmc.answer(SYSTEM, Page(401))
    async with connect(bmc.ca_file, auth=SESSION) as client:
        for _ in range(4):
            assert (await failure(client, at(bmc))).failure is BmcFailure.AUTH
            assert len(bmc.sessions) == 1
    assert bmc.sessions == set()


# The response of an iDRAC is that of stmcginnis/gofish, issue 75.
@pytest.mark.parametrize("message", ["Base.1.8.SessionLimitExceeded", "IDRAC.2.1.RAC0218"])
async def test_a_bmc_without_a_free_session_is_busy_and_no_session_is_closed(bmc: FakeBmc, message: str) -> None:
    info = {"error": {"@Message.ExtendedInfo": [{"MessageId": message}]}}
    bmc.no_free_session = Page(503, msgspec.json.encode(info))
    others = {f"other-{number}" for number in range(bmc.session_limit)}
    bmc.sessions |= others
    async with connect(bmc.ca_file, auth=SESSION) as client:
        for _ in range(5):
            error = await failure(client, at(bmc))
            assert error.failure is BmcFailure.UNREACHABLE
            assert "no free session" in error.detail
            assert bmc.sessions == others
        bmc.sessions.pop()
        assert (await client.read(at(bmc))).power is PowerState.ON


async def test_a_new_secret_replaces_the_session(bmc: FakeBmc) -> None:
    secrets = {"FARRIER_SECRET_X": f"{USERNAME}:{PASSWORD}"}
    target = at(bmc, credential="env:FARRIER_SECRET_X")
    async with connect(bmc.ca_file, auth=SESSION, more=secrets) as client:
        await client.read(target)
        bmc.password = "rotated"
        secrets["FARRIER_SECRET_X"] = f"{USERNAME}:rotated"
        await client.read(target)
        assert len(bmc.sessions) == 1
    assert bmc.logins == 2
    assert bmc.methods["DELETE"] == 2


async def test_sessions_are_ended_even_when_the_program_is_cancelled(bmc: FakeBmc) -> None:
    with anyio.CancelScope() as scope:
        async with connect(bmc.ca_file, auth=SESSION) as client:
            await client.read(at(bmc))
            scope.cancel()
            await anyio.sleep_forever()
    assert bmc.methods["DELETE"] == 1
    assert bmc.sessions == set()


async def test_no_text_contains_a_session_token(bmc: FakeBmc) -> None:
    async with connect(bmc.ca_file, auth=SESSION) as client:
        await client.read(at(bmc))
        (token,) = bmc.sessions
        bmc.answer(SYSTEM, system(PowerState=f"for {token}"))
        with pytest.raises(BmcError) as raised:
            await client.verify(at(bmc))
    assert "remains for ***" in raised.value.detail


@pytest.mark.parametrize("answer", [Page(201), Page(200, b"[]"), Page(201, b"<html>")])
async def test_a_login_without_a_token_is_a_protocol_failure(bmc: FakeBmc, answer: Page) -> None:
    bmc.session_answer = answer
    async with connect(bmc.ca_file, auth=SESSION) as client:
        assert (await failure(client, at(bmc))).failure is BmcFailure.PROTOCOL
