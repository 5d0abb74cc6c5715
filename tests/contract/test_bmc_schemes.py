"""The kind of authentication belongs to a BMC: it is chosen by what the BMC declares and answers, and remembered."""

from __future__ import annotations

from pathlib import Path

import pytest

from farrier.config import BmcHostConfig
from farrier.model.intents.params import PowerRequest
from farrier.model.machine.bmc import LOGIN_CAP, BmcAuth, BmcFailure, BmcTarget, PowerState
from farrier.sim.bmc import fake_systems, simulated_bmc
from farrier.sim.certificates import Authority
from tests.support.bmc import CREDENTIAL, ROOT, SESSIONS, SYSTEMS, USERNAME, FakeBmc, Page, at, connect, failure

BASIC, SESSION = BmcAuth.BASIC, BmcAuth.SESSION
SERVICE = "/redfish/v1/SessionService"


def forced(auth: BmcAuth, ca_file: Path) -> dict[str, BmcHostConfig]:
    return {"127.0.0.1": BmcHostConfig(auth=auth, ca_file=str(ca_file))}


def refuses_basic(bmc: FakeBmc, page: Page) -> None:
    """The BMC answers every request with basic authentication with this page, and does not check the password."""
    bmc.answer_basic = page


def said(text: str, status: int = 401, **headers: str) -> Page:
    pairs = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return Page(status, text.encode(), pairs)


MESSAGE = '{"error": {"@Message.ExtendedInfo": [{"MessageId": "Oem.1.0.%s", "Message": "%s"}]}}'


@pytest.mark.parametrize(
    "page",
    [
        said("{}", WWW_Authenticate='X-Token realm="BMC"'),
        said(MESSAGE % ("BasicAuthDisabled", "")),
        said(MESSAGE % ("Denied", "HTTP Basic Auth is disabled"), 403),
        said(MESSAGE % ("NotAllowed", "Basic authentication is not supported"), 400),
    ],
)
async def test_a_bmc_that_refuses_basic_authentication_gets_a_session_in_the_same_call(
    bmc: FakeBmc, page: Page
) -> None:
    refuses_basic(bmc, page)
    async with connect(bmc.ca_file) as client:
        assert (await client.read(at(bmc))).power is PowerState.ON
        assert len(bmc.sessions) == 1
        before = len(bmc.requests)
        assert (await client.set_power(at(bmc), PowerRequest.OFF)).power is PowerState.OFF
        later = bmc.requests[before:]
        assert [request for request in later if request.authorization or request.path == SESSIONS] == [], "remembered"
    assert bmc.sessions == set()
    assert bmc.failed_logins == 0


@pytest.mark.parametrize(
    "service",
    [
        pytest.param({SERVICE: Page(200, b'{"ServiceEnabled": false}')}, id="declared"),
        pytest.param({SESSIONS: Page(404)}, id="404"),
        pytest.param({SESSIONS: Page(405)}, id="405"),
        pytest.param({SESSIONS: Page(501)}, id="501"),
        pytest.param({SESSIONS: said(MESSAGE % ("ServiceDisabled", "The session service is disabled"), 401)}, id="401"),
        pytest.param({SESSIONS: said(MESSAGE % ("ServiceDisabled", ""), 403)}, id="403"),
    ],
)
async def test_a_bmc_without_sessions_gets_basic_authentication_in_the_same_call(
    bmc: FakeBmc, service: dict[str, Page]
) -> None:
    bmc.anyway.update(service)
    async with connect(bmc.ca_file, auth=SESSION) as client:
        for _ in range(LOGIN_CAP + 1):
            assert (await client.read(at(bmc))).power is PowerState.ON
    assert bmc.failed_logins == 0
    assert sum(request.path == SESSIONS for request in bmc.requests) <= 1, "remembered"


async def test_a_root_without_sessions_gets_basic_authentication(
    bmc: FakeBmc, authority: Authority, tmp_path: Path
) -> None:
    bmc.answer(ROOT, {"Systems": {"@odata.id": SYSTEMS}})
    async with connect(bmc.ca_file, auth=SESSION) as client:
        assert (await client.read(at(bmc))).power is PowerState.ON
    async with simulated_bmc(tmp_path / "sushy", fake_systems(1), authority=authority) as emulator:
        target = BmcTarget(address=emulator.base_url, credential=CREDENTIAL, system_path=emulator.systems[0].path)
        async with connect(
            emulator.ca_file, auth=SESSION, credential=f"{emulator.username}:{emulator.password}"
        ) as client:
            assert (await client.read(target)).power is PowerState.ON


@pytest.mark.parametrize(("first", "works"), [(BASIC, SESSION), (SESSION, BASIC)])
async def test_after_a_refusal_that_does_not_name_the_kind_the_next_call_tries_the_other(
    bmc: FakeBmc, first: BmcAuth, works: BmcAuth
) -> None:
    """Each call makes one login, so that a wrong password is not sent twice."""
    if works is SESSION:
        refuses_basic(bmc, Page(401))
    else:
        bmc.anyway[SESSIONS] = Page(401)
    async with connect(bmc.ca_file, auth=first) as client:
        assert (await failure(client, at(bmc))).failure is BmcFailure.AUTH
        assert bmc.logins == 1
        for _ in range(LOGIN_CAP + 1):
            assert (await client.read(at(bmc))).power is PowerState.ON


async def test_a_secret_that_the_bmc_has_accepted_is_not_a_wrong_password(bmc: FakeBmc) -> None:
    """The session service was switched off after farrier had opened a session."""
    async with connect(bmc.ca_file, auth=SESSION) as client:
        await client.read(at(bmc))
        bmc.sessions.clear()
        bmc.anyway[SESSIONS] = Page(401)
        assert (await client.read(at(bmc))).power is PowerState.ON


@pytest.mark.parametrize(
    "page", [said(MESSAGE % ("UnauthorizedLoginAttempt", "wrong")), said("{}", WWW_Authenticate="Basic realm=x")]
)
async def test_a_bmc_that_names_the_password_is_not_asked_in_another_way(bmc: FakeBmc, page: Page) -> None:
    refuses_basic(bmc, page)
    async with connect(bmc.ca_file) as client:
        for _ in range(2):
            assert (await failure(client, at(bmc))).failure is BmcFailure.AUTH
    assert SESSIONS not in {request.path for request in bmc.requests}


@pytest.mark.parametrize(("auth", "other"), [(BASIC, SESSION), (SESSION, BASIC)])
async def test_the_settings_of_a_host_force_a_kind_and_the_error_names_it(
    bmc: FakeBmc, auth: BmcAuth, other: BmcAuth
) -> None:
    async with connect(bmc.ca_file, auth=other, hosts=forced(auth, bmc.ca_file)) as client:
        await client.read(at(bmc))
        assert (len(bmc.sessions) == 1) is (auth is SESSION)
    bmc.requests.clear()
    refuses_basic(bmc, said("{}", WWW_Authenticate="X-Token"))
    bmc.anyway[SERVICE] = Page(200, b'{"ServiceEnabled": false}')
    async with connect(bmc.ca_file, auth=other, hosts=forced(auth, bmc.ca_file)) as client:
        for _ in range(LOGIN_CAP + 1):
            error = await failure(client, at(bmc))
            assert error.failure is BmcFailure.AUTH_SCHEME
            assert ("basic authentication" if auth is BASIC else "session service is disabled") in error.detail
    assert SESSIONS not in {request.path for request in bmc.requests}


async def test_an_adoption_opens_no_session_at_a_bmc_that_refuses_basic_authentication(bmc: FakeBmc) -> None:
    refuses_basic(bmc, said("{}", WWW_Authenticate="X-Token"))
    async with connect(bmc.ca_file) as client:
        error = await failure(client, at(bmc, only_reads=True))
        assert error.failure is BmcFailure.AUTH_SCHEME
        assert set(bmc.methods) == {"GET"}
        await client.read(at(bmc))
        assert (await client.read(at(bmc, only_reads=True))).power is PowerState.ON, "in the open session"


async def test_a_session_without_a_directory_of_records_ends_with_the_client(
    bmc: FakeBmc, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("STATE_DIRECTORY", raising=False)
    refuses_basic(bmc, said("{}", WWW_Authenticate="X-Token"))
    async with connect(bmc.ca_file, session_directory="") as client:
        await client.read(at(bmc))
        assert len(bmc.sessions) == 1
    assert bmc.sessions == set()


async def test_a_disabled_session_service_that_is_declared_only_after_a_login_costs_no_failed_login(
    bmc: FakeBmc,
) -> None:
    bmc.refusal = said("{}", WWW_Authenticate='Basic realm="BMC"')
    bmc.answer(SERVICE, {"ServiceEnabled": False})
    bmc.anyway[SESSIONS] = Page(401)
    async with connect(bmc.ca_file, auth=SESSION) as client:
        assert (await client.read(at(bmc))).power is PowerState.ON
    assert SESSIONS not in {request.path for request in bmc.requests}
    assert bmc.failed_logins == 0


async def test_a_wrong_password_at_a_bmc_that_offers_both_kinds_is_sent_once(bmc: FakeBmc) -> None:
    bmc.refusal = said("{}", WWW_Authenticate='Basic realm="BMC"')
    async with connect(bmc.ca_file, auth=SESSION, credential=f"{USERNAME}:wr0ng") as client:
        for call in range(LOGIN_CAP):
            assert (await failure(client, at(bmc))).failure is BmcFailure.AUTH
            assert bmc.failed_logins == call + 1
