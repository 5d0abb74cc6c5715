"""The BmcClient against a BMC that misbehaves as the emulator cannot: each fault has its class and text.

`test_bmc_table` lists the behaviour that only our fake can show, with the reasons.
"""

from __future__ import annotations

import gzip
import json
import socket
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest
from structlog.testing import capture_logs
from typing_extensions import override

from farrier.config import BmcTrustConfig
from farrier.errors import ConfigError
from farrier.model.machine.bmc import BmcError, BmcFailure, BmcTarget, PowerState
from farrier.services.bmc import transport
from farrier.services.bmc.client import RedfishBmc
from farrier.sim.certificates import Authority
from tests.support.bmc import (
    CREDENTIAL,
    MANAGER,
    MANAGERS,
    PASSWORD,
    ROOT,
    SYSTEM,
    SYSTEMS,
    Answer,
    Drip,
    FakeBmc,
    Flood,
    HangUp,
    Late,
    Page,
    Silence,
    at,
    connect,
    failure,
    fake_bmc,
    members,
    system,
)
from tests.support.observed import Observed
from tests.support.sockets import ENOUGH

SOON = timedelta(seconds=1)
HOUR = timedelta(hours=1)
BASEBOARD = "/redfish/v1/Systems/Baseboard"
GPU_BASEBOARD = "/redfish/v1/Systems/HGX_Baseboard_0"
BOMB = gzip.compress(b" " * (transport.LARGEST_BODY_BYTES * 8))


async def failure_of(bmc: FakeBmc, system_path: str | None = SYSTEM, **settings: Any) -> BmcError:
    async with connect(bmc.ca_file, **settings) as client:
        return await failure(client, at(bmc, system_path), RedfishBmc.verify)


def page(status: int, body: bytes = b"{}", **headers: str) -> Page:
    return Page(status, body, tuple((name.replace("_", "-"), value) for name, value in headers.items()))


@pytest.mark.parametrize(
    ("answer", "expected", "says"),
    [
        pytest.param(page(401), "auth", "HTTP 401", id="401"),
        pytest.param(page(403), "refused", "HTTP 403, and gives no reason", id="403"),
        pytest.param(
            page(403, b'{"error": {"code": "Base.1.12.PasswordChangeRequired"}}'),
            "auth",
            "the BMC requires a new password",
            id="password-change-required",
        ),
        # As an iDRAC8 does: bb-Ricardo/check_redfish, issue 90.
        pytest.param(HangUp(401), "auth", "HTTP 401", id="401-hang-up"),
        pytest.param(page(404), "unsupported", "HTTP 404", id="404"),
        pytest.param(page(405), "unsupported", "HTTP 405", id="405"),
        pytest.param(page(501), "unsupported", "HTTP 501", id="501"),
        pytest.param(page(400), "protocol", "HTTP 400", id="400"),
        pytest.param(page(500, b"<html>boom</html>"), "protocol", "HTTP 500", id="500"),
        pytest.param(page(503, Retry_After="120"), "unreachable", "HTTP 503", id="503"),
        pytest.param(page(429), "unreachable", "HTTP 429", id="429"),
        pytest.param(page(302, Location="https://192.0.2.1/"), "protocol", "redirect", id="redirect"),
        pytest.param(page(200, b"<html>Login</html>", Content_Type="text/html"), "protocol", "JSON", id="html"),
        pytest.param(page(200, b"[" * 200_000), "protocol", "nested too deep", id="deep"),
        pytest.param(page(200, BOMB, Content_Encoding="gzip"), "protocol", "larger than", id="bomb"),
        pytest.param(page(200, b"not gzip at all", Content_Encoding="gzip"), "protocol", "decode", id="not-gzip"),
        pytest.param(Flood(), "protocol", "larger than", id="flood"),
        pytest.param(HangUp(), "protocol", "incomplete", id="hang-up"),
        pytest.param(system(PowerState=...), "protocol", "remains null", id="power-missing"),
        pytest.param(system(PowerState=["On"]), "protocol", "remains null", id="power-list"),
        pytest.param(system(Actions=[]), "unsupported", "switches its power", id="odd-actions"),
    ],
)
async def test_a_system_that_cannot_be_read_has_a_class_and_a_text(
    bmc: FakeBmc, answer: Answer, expected: str, says: str
) -> None:
    bmc.answer(SYSTEM, answer)
    error = await failure_of(bmc)
    assert error.failure == expected
    assert says in error.detail


async def test_json_may_begin_with_a_byte_order_mark_and_name_any_charset(bmc: FakeBmc) -> None:
    body = b"\xef\xbb\xbf" + json.dumps(system()).encode()
    bmc.answer(SYSTEM, page(200, body, Content_Type="application/json; charset=base64"))
    async with connect(bmc.ca_file) as client:
        assert (await client.verify(at(bmc))).serial == "SN-0001"


@pytest.mark.parametrize("answer", [Silence(), Drip()], ids=["silence", "drip"])
async def test_the_deadline_is_for_the_whole_answer(bmc: FakeBmc, answer: Answer) -> None:
    bmc.answer(MANAGER, answer)
    observed = Observed("bmc")
    with anyio.fail_after(10 * ENOUGH.total_seconds()):
        error = await failure_of(bmc, deadline=ENOUGH, observed=observed)
    assert error.failure is BmcFailure.TIMEOUT
    assert error.credential_version is not None
    assert observed.requests == [("system", "ok"), ("manager", "timeout")]


async def test_the_deadline_is_for_the_whole_call(bmc: FakeBmc) -> None:
    """Each response comes within the deadline; together they take longer."""
    bmc.answer(SYSTEM, Late(0.7 * SOON.total_seconds(), system()))
    bmc.answer(MANAGER, Late(0.7 * SOON.total_seconds(), {"@odata.type": "#Manager.v1_18_0.Manager"}))
    error = await failure_of(bmc, deadline=SOON)
    assert error.failure is BmcFailure.TIMEOUT


async def test_a_port_without_a_tls_handshake_fails_as_timeout(bmc: FakeBmc) -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        target = BmcTarget(address=f"127.0.0.1:{deaf.getsockname()[1]}", credential=CREDENTIAL, system_path=SYSTEM)
        async with connect(bmc.ca_file, connect_timeout=SOON, deadline=HOUR) as client:
            error = await failure(client, target)
    assert error.failure is BmcFailure.TIMEOUT


async def test_waiting_for_a_slot_does_not_use_up_the_deadline(
    bmc: FakeBmc, authority: Authority, tmp_path: Path
) -> None:
    """With a single slot, a call that waits while a silent BMC uses up its deadline has its own deadline afterwards."""
    (tmp_path / "silent").mkdir()
    async with fake_bmc(tmp_path / "silent", authority) as silent:
        silent.answer(SYSTEM, Silence())
        async with (
            connect(bmc.ca_file, concurrency=1, patience=HOUR, deadline=ENOUGH) as client,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(failure, client, at(silent))
            await anyio.wait_all_tasks_blocked()
            assert (await client.read(at(bmc))).power is PowerState.ON


@pytest.mark.parametrize(
    ("states", "power"),
    [
        (["PoweringOn"], PowerState.ON),
        (["PoweringOff"], PowerState.OFF),
        (["Off"], PowerState.OFF),
        ([None, "Reset", "On"], PowerState.ON),
    ],
)
async def test_a_transitional_power_state_is_read_again(
    bmc: FakeBmc, states: list[str | None], power: PowerState
) -> None:
    bmc.answer(SYSTEM, *(system(PowerState=state) for state in states))
    async with connect(bmc.ca_file) as client:
        reading = await client.verify(at(bmc))
    assert reading.power is power
    assert len(bmc.requests) == 1 + len(states)


async def test_rereads_of_the_power_state_end_before_the_deadline(bmc: FakeBmc) -> None:
    """A pause of an hour exceeds the deadline: the state counts as unreadable at once, and not as a timeout later."""
    bmc.answer(SYSTEM, system(PowerState=None))
    with anyio.fail_after(10):
        error = await failure_of(bmc, power_reread_pause=HOUR)
    assert error.failure is BmcFailure.PROTOCOL


async def test_the_host_is_chosen_by_its_actions_and_not_by_its_position(bmc: FakeBmc) -> None:
    """The baseboard comes first, is on, and has neither actions nor a BIOS."""
    bmc.answer(SYSTEMS, members(BASEBOARD, SYSTEM))
    bmc.answer(BASEBOARD, system(Actions=..., Bios=..., PowerState="On", SerialNumber="BASEBOARD"))
    async with connect(bmc.ca_file) as client:
        reading = await client.verify(at(bmc, None))
    assert (reading.system_path, reading.serial) == (SYSTEM, "SN-0001")
    paths = [request.path for request in bmc.requests]
    assert paths.count(SYSTEM) == paths.count(BASEBOARD) == 1


# NVIDIA/infra-controller, issue 5418: the response of a DGX H100's BMC for the baseboard while the host is off.
HOST_IS_OFF = Page(503, b'{"error": {"code": "Ami.1.0.HMCCommuicationFailed"}}')


@pytest.mark.parametrize("listed", [(SYSTEM, GPU_BASEBOARD), (GPU_BASEBOARD, SYSTEM)])
async def test_a_host_that_is_off_is_found_without_a_read_of_its_gpu_baseboard(
    bmc: FakeBmc, listed: tuple[str, str]
) -> None:
    """A DGX H100 lists the baseboard last, a GB300 first."""
    bmc.answer(SYSTEMS, members(*listed))
    bmc.answer(GPU_BASEBOARD, HOST_IS_OFF)
    bmc.answer(SYSTEM, system(PowerState="Off"))
    async with connect(bmc.ca_file) as client:
        reading = await client.verify(at(bmc, None))
    assert (reading.system_path, reading.power) == (SYSTEM, PowerState.OFF)
    assert GPU_BASEBOARD not in {request.path for request in bmc.requests}


async def test_a_bmc_that_lists_only_a_gpu_baseboard_is_read(bmc: FakeBmc) -> None:
    bmc.answer(SYSTEMS, members(GPU_BASEBOARD))
    bmc.answer(GPU_BASEBOARD, system())
    async with connect(bmc.ca_file) as client:
        assert (await client.verify(at(bmc, None))).system_path == GPU_BASEBOARD


@pytest.mark.parametrize(
    ("collection", "says"),
    [
        (members(), "lists no system"),
        ({}, "lists no system"),
        ({"Members": "/redfish/v1/Systems/Self"}, "lists no system"),
        ({"Members": [None, {"@odata.id": 7}, {"@odata.id": "Self"}]}, "lists no system"),
        (members(*(f"/redfish/v1/Systems/{number}" for number in range(200))), "lists 200 systems"),
    ],
)
async def test_a_list_of_systems_without_a_usable_one_is_unsupported(
    bmc: FakeBmc, collection: Answer, says: str
) -> None:
    bmc.answer(SYSTEMS, collection)
    error = await failure_of(bmc, None)
    assert error.failure is BmcFailure.UNSUPPORTED
    assert says in error.detail
    assert len(bmc.requests) == 2


async def test_a_link_to_another_host_is_not_followed(bmc: FakeBmc) -> None:
    bmc.answer(ROOT, {"Systems": {"@odata.id": "//192.0.2.1/redfish/v1/Systems"}})
    error = await failure_of(bmc, None)
    assert error.failure is BmcFailure.PROTOCOL
    assert "another host" in error.detail
    assert bmc.logins == 0


async def test_the_service_root_is_read_without_the_credential(bmc: FakeBmc) -> None:
    async with connect(bmc.ca_file) as client:
        await client.verify(at(bmc, None))
    assert [request.path for request in bmc.requests if request.authorization is None] == [ROOT]
    assert {request.method for request in bmc.requests} == {"GET"}


async def test_a_service_root_that_requires_a_login_costs_no_login(bmc: FakeBmc) -> None:
    """Some BMCs violate the standard in this way; the client then tries the usual path of the systems."""
    bmc.answer(ROOT, Page(401))
    async with connect(bmc.ca_file) as client:
        assert (await client.verify(at(bmc, None))).system_path == SYSTEM


async def test_the_identity_is_read_after_the_discovery_of_the_system(bmc: FakeBmc) -> None:
    async with connect(bmc.ca_file) as client:
        reading = await client.verify(at(bmc, None), macs=True)
    assert reading.uuid == "38b7a8c4-0001-11ec-9621-0242ac130002"
    assert reading.macs == ("aa:bb:cc:00:00:01", "aa:bb:cc:00:00:02")
    assert (reading.serial, reading.manufacturer, reading.model) == ("SN-0001", "ACME", "GPU-8")
    assert reading.health == "Warning"


async def test_texts_of_a_bmc_are_cleaned_and_shortened(bmc: FakeBmc) -> None:
    resource = system(SerialNumber=" SN\0-\ud8001\n", Model="x" * 10_000, UUID=7, Manufacturer="")
    bmc.answer(SYSTEM, Page(body=json.dumps(resource).encode()))
    async with connect(bmc.ca_file) as client:
        reading = await client.verify(at(bmc))
    assert reading.serial == "SN-1"
    assert reading.model == "x" * 128
    assert reading.uuid is None
    assert reading.manufacturer is None


async def test_the_manager_is_proven_by_reading_it(bmc: FakeBmc) -> None:
    bmc.answer(MANAGER, {"error": "not here"})
    error = await failure_of(bmc)
    assert error.failure is BmcFailure.PROTOCOL
    assert f"{MANAGER} is not a manager" in error.detail


async def test_a_system_without_a_named_manager_takes_a_listed_one_in_three_requests(bmc: FakeBmc) -> None:
    bmc.answer(SYSTEM, system(Links=...))
    async with connect(bmc.ca_file) as client:
        await client.verify(at(bmc))
    assert [request.path for request in bmc.requests] == [SYSTEM, MANAGERS, MANAGER]
    bmc.answer(MANAGERS, members())
    error = await failure_of(bmc)
    assert error.failure is BmcFailure.UNSUPPORTED
    assert "lists a manager" in error.detail


async def test_an_address_outside_the_networks_is_refused_without_a_connection(bmc: FakeBmc) -> None:
    port = bmc.url.rpartition(":")[2]
    async with connect(bmc.ca_file, allowed_networks=("10.0.0.0/8",)) as client:
        for host in ("127.0.0.1", "localhost", "0x7f.1", "[::ffff:127.0.0.1]", "2130706433"):
            target = BmcTarget(address=f"{host}:{port}", credential=CREDENTIAL, system_path=SYSTEM)
            error = await failure(client, target)
            assert (error.failure, error.dialled) == (BmcFailure.INCOMPLETE, False), host
            assert "outside of bmc.allowed_networks" in error.detail
    assert bmc.requests == []


async def test_a_name_that_does_not_resolve_is_unreachable(bmc: FakeBmc) -> None:
    async with connect(bmc.ca_file) as client:
        target = BmcTarget(address="bmc-1.invalid", credential=CREDENTIAL)
        error = await failure(client, target, RedfishBmc.verify)
    assert error.failure is BmcFailure.UNREACHABLE
    assert "does not resolve" in error.detail


async def test_an_unresolvable_credential_is_incomplete_and_no_request_is_sent(bmc: FakeBmc) -> None:
    async with connect(bmc.ca_file) as client:
        error = await failure(
            client, BmcTarget(address=bmc.url, credential="env:FARRIER_SECRET_NONE", system_path=SYSTEM)
        )
    assert error.failure is BmcFailure.INCOMPLETE
    assert "not set" in error.detail
    assert error.credential_version is None
    assert bmc.requests == []


async def test_a_bug_of_the_client_is_internal_with_its_traceback_in_the_log_only(bmc: FakeBmc) -> None:
    class Broken(Observed):
        @override
        def requested(self, *_: object) -> None:
            raise ZeroDivisionError(f"observed {PASSWORD}")

    with capture_logs() as logs:
        error = await failure_of(bmc, observed=Broken("bmc"))
    assert error.failure is BmcFailure.INTERNAL
    assert "ZeroDivisionError" in error.detail
    assert [entry["event"] for entry in logs] == ["bmc.client_bug"]
    assert "observed ***" in logs[0]["traceback"]


async def test_a_cancelled_call_is_observed_as_cancelled(bmc: FakeBmc) -> None:
    bmc.answer(SYSTEM, Silence())
    observed = Observed("bmc")
    async with connect(bmc.ca_file, observed=observed) as client, anyio.create_task_group() as tasks:
        tasks.start_soon(client.verify, at(bmc))
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    assert observed.requests == [("system", "cancelled")]


@pytest.mark.parametrize(
    ("trust", "says"),
    [
        (BmcTrustConfig(ca_file="/nonexistent/ca.crt"), "No such file"),
        (BmcTrustConfig(ca_file="/dev/null"), "expected a PEM file"),
        (BmcTrustConfig(fingerprint="12:34"), "64 hexadecimal digits"),
        (BmcTrustConfig(fingerprint="zz"), "64 hexadecimal digits"),
    ],
)
async def test_an_unusable_tls_policy_is_refused_at_start(trust: BmcTrustConfig, says: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=says):
        async with connect(tmp_path / "unused", trust=trust):
            pass
