"""A BMC that knows the user but refuses a request: the error has the BMC's reason, and no login counts as failed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from farrier.model.intents.params import PowerRequest
from farrier.model.machine.bmc import LOGIN_CAP, BmcAuth, BmcError, BmcFailure, PowerState
from farrier.services.bmc.client import RedfishBmc
from tests.support.bmc import MANAGER, PASSWORD, RESET, SYSTEM, Answer, FakeBmc, Page, at, connect, system

INFO = "@Message.ExtendedInfo"
NO_RIGHT = {
    "MessageId": "Base.1.8.InsufficientPrivilege",
    "Message": "There are insufficient privileges for the account or credentials.",
}
# metal3-io/ironic-image, issue 688: a Supermicro BMC without a licence.
NO_LICENCE = {
    "MessageId": "SMC.1.0.OemLicenseNotPassed",
    "Message": "Not licensed to perform this request. The following licenses DCMS were needed",
}
WRONG_STATE = {"MessageId": "IDRAC.2.8.PSU501", "Message": "The chassis is off."}


def refusal(status: int, *messages: object, **error: Any) -> Page:
    whole = {"code": "Base.1.8.GeneralError", "message": "A general error has occurred. See ExtendedInfo.", **error}
    return Page(status, json.dumps({"error": {**whole, INFO: list(messages)}}).encode())


async def refused(client: RedfishBmc, bmc: FakeBmc, wanted: PowerRequest = PowerRequest.OFF) -> BmcError:
    with pytest.raises(BmcError) as raised:
        await client.set_power(at(bmc), wanted)
    return raised.value


@pytest.mark.parametrize("auth", list(BmcAuth))
@pytest.mark.parametrize(
    ("status", "message"),
    [
        pytest.param(403, NO_RIGHT, id="role"),
        pytest.param(401, NO_RIGHT, id="role, with the wrong status"),
        pytest.param(400, NO_RIGHT, id="role, with another wrong status"),
        pytest.param(403, NO_LICENCE, id="licence"),
        pytest.param(403, WRONG_STATE, id="state"),
        pytest.param(403, {"MessageId": "Base.1.8.AccessDenied", "Message": "The service denied access."}, id="denied"),
        pytest.param(403, {"MessageId": "Oem.1.0.SomethingNew", "MessageArgs": ["lockdown mode"]}, id="unknown"),
    ],
)
async def test_a_refused_action_is_no_failed_login_and_has_the_reason(
    bmc: FakeBmc, status: int, message: dict[str, Any], auth: BmcAuth
) -> None:
    bmc.reset_answer, bmc.power_after = refusal(status, message), ()
    async with connect(bmc.ca_file, auth=auth) as client:
        for _ in range(LOGIN_CAP + 1):
            error = await refused(client, bmc)
            assert error.failure is BmcFailure.REFUSED
            assert not error.sent
            assert f"{RESET} returned HTTP {status}: {message['MessageId']}: " in error.detail
            assert message.get("Message", "lockdown mode") in error.detail
        assert (await client.read(at(bmc))).power is PowerState.ON
    assert len(bmc.resets) == LOGIN_CAP + 1


@pytest.mark.parametrize(
    ("name", "status"), [("UnauthorizedLoginAttempt", 400), ("NoValidSession", 403), ("PasswordChangeRequired", 403)]
)
async def test_a_refused_login_is_one_whatever_its_status(bmc: FakeBmc, name: str, status: int) -> None:
    bmc.answer(SYSTEM, refusal(status, {"MessageId": f"Base.1.8.{name}"}))
    async with connect(bmc.ca_file) as client:
        with pytest.raises(BmcError) as raised:
            await client.read(at(bmc))
    assert raised.value.failure is BmcFailure.AUTH


@pytest.mark.parametrize(
    ("body", "says"),
    [
        pytest.param({INFO: [NO_RIGHT]}, "InsufficientPrivilege: There are", id="at the top"),
        pytest.param({"error": {INFO: NO_RIGHT}}, "InsufficientPrivilege: There are", id="not a list"),
        pytest.param({"error": {f"ResetType{INFO}": [NO_RIGHT]}}, "InsufficientPrivilege", id="of a property"),
        pytest.param({f"ResetType{INFO}": [NO_RIGHT]}, "InsufficientPrivilege", id="of a property, at the top"),
        pytest.param({"error": {"code": "Base.1.0.X", "message": "too hot"}}, "Base.1.0.X: too hot", id="old"),
        pytest.param({"error": "no licence"}, "HTTP 400: no licence", id="a bare text"),
        pytest.param({"error": {INFO: [{"Message": "too hot"}]}}, "HTTP 400: too hot", id="no ID"),
        pytest.param({"error": {INFO: [{"MessageId": "X.1.Y"}]}}, "HTTP 400: X.1.Y", id="only an ID"),
        pytest.param({"error": {INFO: [None, 7, {}]}}, "HTTP 400, and gives no reason", id="nothing"),
        pytest.param([], "HTTP 400, and gives no reason", id="a list"),
    ],
)
async def test_the_reason_of_a_refusal_is_found_wherever_a_bmc_puts_it(bmc: FakeBmc, body: object, says: str) -> None:
    bmc.reset_answer, bmc.power_after = Page(400, json.dumps(body).encode()), ()
    async with connect(bmc.ca_file) as client:
        assert says in (await refused(client, bmc)).detail


async def test_a_page_is_no_reason(bmc: FakeBmc) -> None:
    bmc.reset_answer, bmc.power_after = Page(403, b"<html><body>Forbidden by lighttpd</body></html>"), ()
    async with connect(bmc.ca_file) as client:
        error = await refused(client, bmc)
    assert error.failure is BmcFailure.REFUSED
    assert error.detail.endswith("HTTP 403, and gives no reason")


@pytest.mark.parametrize("filler", [0, 290, 5000])
async def test_a_reason_is_short_and_has_no_secret_wherever_it_is_cut(bmc: FakeBmc, filler: int) -> None:
    message = {"MessageId": "Oem.1.0.Echo", "Message": f"{'x' * filler}{PASSWORD}\n\x1b[2J" + "y" * 5000}
    bmc.reset_answer, bmc.power_after = refusal(403, message, NO_RIGHT, NO_LICENCE), ()
    async with connect(bmc.ca_file) as client:
        detail = (await refused(client, bmc)).detail
    assert len(detail) < 512
    assert detail.isprintable()
    assert PASSWORD[:4] not in detail


async def test_a_refused_read_of_the_types_of_reset_does_not_prevent_the_reset(bmc: FakeBmc) -> None:
    info = f"{SYSTEM}/ResetActionInfo"
    reset = {"target": RESET, "@Redfish.ActionInfo": info}
    bmc.answer(SYSTEM, system(Actions={"#ComputerSystem.Reset": reset}))
    bmc.answer(info, refusal(403, NO_RIGHT))
    async with connect(bmc.ca_file) as client:
        assert (await client.set_power(at(bmc), PowerRequest.OFF)).power is PowerState.OFF


@pytest.mark.parametrize("first", [Page(503), refusal(403, NO_RIGHT), Page(404), {"error": "not here"}])
async def test_one_manager_that_responds_is_enough(bmc: FakeBmc, first: Answer) -> None:
    """While the host is off, the manager of the GPU baseboard does not respond."""
    other = "/redfish/v1/Managers/HGX_BMC_0"
    bmc.answer(SYSTEM, system(Links={"ManagedBy": [{"@odata.id": other}, {"@odata.id": MANAGER}]}))
    bmc.answer(other, first)
    async with connect(bmc.ca_file) as client:
        assert (await client.verify(at(bmc))).power is PowerState.ON


async def test_a_refused_login_is_not_repeated_at_another_manager(bmc: FakeBmc) -> None:
    other = "/redfish/v1/Managers/HGX_BMC_0"
    bmc.answer(SYSTEM, system(Links={"ManagedBy": [{"@odata.id": other}, {"@odata.id": MANAGER}]}))
    bmc.answer(other, Page(401))
    async with connect(bmc.ca_file) as client:
        with pytest.raises(BmcError) as raised:
            await client.verify(at(bmc))
    assert raised.value.failure is BmcFailure.AUTH
    assert [request.path for request in bmc.requests] == [SYSTEM, other]
