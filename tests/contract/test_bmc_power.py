"""A change of power takes at most one action, and is done when a read has shown it. Tested on farrier's fake BMC;
the last test uses the emulator, which cannot lose a reply, lack a type of reset, or get stuck.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import msgspec
import pytest

from farrier.model.intents.params import PowerRequest
from farrier.model.machine.bmc import BmcError, BmcFailure, BmcReading, BmcTarget, PowerState
from farrier.services.bmc.client import RedfishBmc
from farrier.sim.bmc import PROMPT, fake_systems, simulated_bmc
from farrier.sim.certificates import Authority
from tests.support.bmc import (
    CREDENTIAL,
    RESET,
    SYSTEM,
    Answer,
    FakeBmc,
    HangUp,
    NoReply,
    Page,
    Silence,
    at,
    connect,
    system,
)
from tests.support.observed import Observed
from tests.support.sockets import ENOUGH

ON, OFF, RESTART = PowerRequest.ON, PowerRequest.OFF, PowerRequest.RESET
SOON = timedelta(milliseconds=300)
AT_ONCE = timedelta(0)
HOUR = timedelta(hours=1)
INFO = "/redfish/v1/Systems/Self/ResetActionInfo"


async def switch(bmc: FakeBmc, wanted: PowerRequest, *, send: bool = True, **settings: Any) -> BmcReading:
    async with connect(bmc.ca_file, **settings) as client:
        return await client.set_power(at(bmc), wanted, send=send)


async def failure(bmc: FakeBmc, wanted: PowerRequest, *, send: bool = True, **settings: Any) -> BmcError:
    with pytest.raises(BmcError) as raised:
        await switch(bmc, wanted, send=send, **settings)
    return raised.value


def taking(*types: str, **changes: Any) -> dict[str, Any]:
    """A system resource that allows these types of reset."""
    reset = {"target": RESET, "ResetType@Redfish.AllowableValues": list(types)}
    return system(Actions={"#ComputerSystem.Reset": reset}, **changes)


@pytest.mark.parametrize(
    ("power", "wanted", "sent", "ends"),
    [
        ("On", ON, [], PowerState.ON),
        ("Off", OFF, [], PowerState.OFF),
        ("Off", ON, ["On"], PowerState.ON),
        ("On", OFF, ["ForceOff"], PowerState.OFF),
        ("On", RESTART, ["ForceRestart"], PowerState.ON),
        ("Off", RESTART, ["On"], PowerState.ON),
        # Clients ask for off and reset when a graceful shutdown hangs, so both must be forced.
        ("PoweringOff", OFF, ["ForceOff"], PowerState.OFF),
        ("PoweringOff", RESTART, ["ForceRestart"], PowerState.ON),
        ("PoweringOn", OFF, ["ForceOff"], PowerState.OFF),
        ("PoweringOn", RESTART, ["ForceRestart"], PowerState.ON),
    ],
)
async def test_the_action_depends_on_the_power_state_and_is_sent_once(
    bmc: FakeBmc, power: str, wanted: PowerRequest, sent: list[str], ends: PowerState
) -> None:
    bmc.answer(SYSTEM, system(PowerState=power))
    reading = await switch(bmc, wanted)
    assert bmc.resets == sent
    assert bmc.methods["POST"] == len(sent)
    assert set(bmc.methods) <= {"GET", "POST"}
    assert reading.power is ends
    assert (reading.serial, reading.system_path) == ("SN-0001", SYSTEM)


async def test_a_system_that_is_switching_already_gets_no_action_and_is_read_until_done(bmc: FakeBmc) -> None:
    bmc.answer(SYSTEM, *(system(PowerState=power) for power in ("PoweringOn", None, "On")))
    assert (await switch(bmc, ON)).power is PowerState.ON
    assert bmc.methods == {"GET": 3}


async def test_a_system_that_is_switching_off_is_switched_on_once_it_is_off(bmc: FakeBmc) -> None:
    """BMCs refuse to switch on a system that is not off yet."""
    bmc.answer(SYSTEM, *(system(PowerState=power) for power in ("PoweringOff", "PoweringOff", "Off")))
    assert (await switch(bmc, ON)).power is PowerState.ON
    assert bmc.resets == ["On"]


@pytest.mark.parametrize("wanted", [ON, OFF, RESTART])
async def test_a_system_with_an_unreadable_power_state_gets_no_action(bmc: FakeBmc, wanted: PowerRequest) -> None:
    bmc.answer(SYSTEM, system(PowerState=None))
    error = await failure(bmc, wanted)
    assert error.failure is BmcFailure.PROTOCOL
    assert f"stays null; {wanted} was not sent" in error.detail
    assert not error.sent
    assert bmc.resets == []


@pytest.mark.matrix(strength=1)
@pytest.mark.parametrize(
    ("allowed", "wanted", "sent"),
    [
        (["ForceOn", "ForceOff"], ON, "ForceOn"),
        (["ForceOff", "GracefulShutdown"], OFF, "ForceOff"),
        (["GracefulShutdown", "PushPowerButton"], OFF, "GracefulShutdown"),
        (["PowerCycle", "ForceRestart"], RESTART, "ForceRestart"),
        (["PowerCycle", "GracefulRestart"], RESTART, "PowerCycle"),
    ],
)
@pytest.mark.parametrize("told", ["in the action", "credential reference"])
async def test_only_a_reset_type_that_the_bmc_allows_is_sent(
    bmc: FakeBmc, allowed: list[str], wanted: PowerRequest, sent: str, *, told: str
) -> None:
    power = "Off" if wanted is ON else "On"
    if told == "in the action":
        bmc.answer(SYSTEM, taking(*allowed, PowerState=power))
    else:
        reset = {"target": RESET, "@Redfish.ActionInfo": INFO}
        bmc.answer(SYSTEM, system(Actions={"#ComputerSystem.Reset": reset}, PowerState=power))
        bmc.answer(INFO, {"Parameters": [7, {"Name": "Delay"}, {"Name": "ResetType", "AllowableValues": allowed}]})
    if sent == "ForceOn":
        bmc.power_after = ("On",)
    await switch(bmc, wanted)
    assert bmc.resets == [sent]


@pytest.mark.parametrize("info", [Page(404), {}, {"Parameters": {"Name": "ResetType"}}])
async def test_a_bmc_that_lists_no_reset_types_gets_the_usual_one(bmc: FakeBmc, info: Answer) -> None:
    reset = {"target": RESET, "@Redfish.ActionInfo": INFO}
    bmc.answer(SYSTEM, system(Actions={"#ComputerSystem.Reset": reset}))
    bmc.answer(INFO, info)
    assert (await switch(bmc, OFF)).power is PowerState.OFF
    assert bmc.resets == ["ForceOff"]


async def test_a_bmc_without_a_suitable_reset_type_is_unsupported(bmc: FakeBmc) -> None:
    bmc.answer(SYSTEM, taking("Nmi", "GracefulRestart"))
    error = await failure(bmc, RESTART)
    assert error.failure is BmcFailure.UNSUPPORTED
    assert "requires ForceRestart or PowerCycle; the BMC allows GracefulRestart, Nmi" in error.detail
    assert not error.sent
    assert bmc.methods["POST"] == 0


@pytest.mark.parametrize("target", [None, 7, "//192.0.2.1/reset", "https://192.0.2.1/reset"])
async def test_an_action_with_an_invalid_or_foreign_target_is_not_sent(bmc: FakeBmc, target: object) -> None:
    bmc.answer(SYSTEM, system(Actions={"#ComputerSystem.Reset": {"target": target}}))
    error = await failure(bmc, OFF)
    assert error.failure in (BmcFailure.UNSUPPORTED, BmcFailure.PROTOCOL)
    assert not error.sent
    assert bmc.methods["POST"] == 0


@pytest.mark.parametrize("lost", [NoReply(), HangUp(), Silence(), Page(500), Page(502), Page(504)], ids=repr)
async def test_a_lost_reply_is_no_error_and_the_action_is_not_sent_again(bmc: FakeBmc, lost: Answer) -> None:
    bmc.reset_answer = lost
    assert (await switch(bmc, OFF, deadline=ENOUGH)).power is PowerState.OFF
    assert bmc.resets == ["ForceOff"]


@pytest.mark.parametrize("reply", [Page(204), NoReply(), Page(500)], ids=repr)
async def test_a_system_that_does_not_switch_is_a_timeout_and_gets_no_second_action(
    bmc: FakeBmc, reply: Answer
) -> None:
    bmc.reset_answer = reply
    bmc.power_after = ()
    error = await failure(bmc, OFF, power_deadline=SOON)
    assert error.failure is BmcFailure.TIMEOUT
    assert f"{SYSTEM} stays On after off was sent" in error.detail
    assert error.sent
    assert bmc.resets == ["ForceOff"]


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (400, BmcFailure.PROTOCOL),
        (401, BmcFailure.AUTH),
        (403, BmcFailure.REFUSED),
        (404, BmcFailure.UNSUPPORTED),
        (409, BmcFailure.UNREACHABLE),
        (412, BmcFailure.PROTOCOL),
        (501, BmcFailure.UNSUPPORTED),
        (503, BmcFailure.UNREACHABLE),
        (307, BmcFailure.PROTOCOL),
    ],
)
async def test_a_refused_action_counts_as_not_sent(bmc: FakeBmc, status: int, expected: BmcFailure) -> None:
    bmc.reset_answer = Page(status, headers=(("Location", "https://192.0.2.1/"), ("Retry-After", "90")))
    bmc.power_after = ()
    error = await failure(bmc, OFF)
    assert error.failure is expected
    assert error.retry_after == timedelta(seconds=90)
    assert error.dialled
    assert not error.sent
    assert bmc.resets == ["ForceOff"]


@pytest.mark.parametrize("status", [400, 403, 409])
async def test_a_refused_change_succeeds_if_the_power_is_as_requested(bmc: FakeBmc, status: int) -> None:
    """A person may have pressed the power button on the machine first."""
    bmc.reset_answer = Page(status)
    assert (await switch(bmc, OFF)).power is PowerState.OFF
    assert bmc.resets == ["ForceOff"]


async def test_a_refused_reset_fails_although_the_system_is_on(bmc: FakeBmc) -> None:
    bmc.reset_answer = Page(409)
    assert (await failure(bmc, RESTART)).failure is BmcFailure.UNREACHABLE
    assert bmc.resets == ["ForceRestart"]


# An iDRAC10 refuses to switch on for up to a minute after a power-off: openstack/ironic,
# ironic/drivers/modules/redfish/power.py, lines 67-90.
SETTLING = Page(409, b'{"error": {"@Message.ExtendedInfo": [{"MessageId": "Base.1.18.ActionParameterValueConflict"}]}}')
# An iLO refuses shortly after a change: openstack/sushy, releasenotes/notes/retry-ilo-not-ready-error; the text is
# that of goldyfruit/ansible-ilo, issue 1.
NOT_READY = Page(
    400, b'{"error": {"@Message.ExtendedInfo": [{"MessageID": "iLO.0.10.InvalidOperationForSystemState"}]}}'
)


@pytest.mark.parametrize("refusal", [SETTLING, NOT_READY], ids=["idrac", "ilo"])
@pytest.mark.parametrize("wanted", [ON, RESTART])
async def test_on_is_sent_again_while_the_bmc_refuses_it_after_a_power_off(
    bmc: FakeBmc, wanted: PowerRequest, refusal: Page
) -> None:
    bmc.answer(SYSTEM, system(PowerState="Off"))
    bmc.reset_refusals = [refusal, refusal]
    assert (await switch(bmc, wanted, power_settling_pause=AT_ONCE)).power is PowerState.ON
    assert bmc.resets == ["On", "On", "On"]


async def test_on_is_not_sent_again_after_the_time_in_which_a_bmc_settles(bmc: FakeBmc) -> None:
    bmc.answer(SYSTEM, system(PowerState="Off"))
    bmc.reset_refusals = [SETTLING, SETTLING]
    error = await failure(bmc, ON, power_settling=AT_ONCE)
    assert error.failure is BmcFailure.UNREACHABLE
    assert not error.sent
    assert bmc.resets == ["On"]


async def test_on_is_not_sent_again_if_the_bmc_requires_a_longer_wait(bmc: FakeBmc) -> None:
    bmc.answer(SYSTEM, system(PowerState="Off"))
    bmc.reset_refusals = [Page(409, headers=(("Retry-After", "90"),)), SETTLING]
    assert (await failure(bmc, ON, power_settling_pause=AT_ONCE)).retry_after == timedelta(seconds=90)
    assert bmc.resets == ["On"]


async def test_on_whose_reply_is_lost_after_a_refusal_is_not_sent_again(bmc: FakeBmc) -> None:
    bmc.answer(SYSTEM, system(PowerState="Off"))
    bmc.reset_refusals = [SETTLING]
    bmc.reset_answer = NoReply()
    assert (await switch(bmc, ON, power_settling_pause=AT_ONCE)).power is PowerState.ON
    assert bmc.resets == ["On", "On"]


async def test_an_action_that_cannot_work_is_not_sent_again(bmc: FakeBmc) -> None:
    bmc.answer(SYSTEM, system(PowerState="Off"))
    bmc.reset_refusals = [Page(400), Page(400)]
    assert (await failure(bmc, ON, power_settling_pause=AT_ONCE)).failure is BmcFailure.PROTOCOL
    assert bmc.resets == ["On"]


async def test_without_send_no_action_is_sent(bmc: FakeBmc) -> None:
    """After a crash it is unknown whether the reset was sent."""
    bmc.answer(SYSTEM, *(system(PowerState=power) for power in ("On", None, "PoweringOff", "Off")))
    assert (await switch(bmc, OFF, send=False)).power is PowerState.OFF
    assert bmc.methods == {"GET": 4}
    bmc.answer(SYSTEM, system(PowerState="Off"))
    error = await failure(bmc, RESTART, send=False, power_deadline=SOON)
    assert error.failure is BmcFailure.TIMEOUT
    assert "stays Off; expected On" in error.detail
    assert not error.sent
    assert bmc.resets == []


async def test_reads_that_fail_after_the_action_are_repeated(bmc: FakeBmc) -> None:
    """A BMC is slow, or sends half a page, while it switches."""
    bmc.power_after = ()
    answers: tuple[Answer, ...]
    answers = (system(), Page(503), NoReply(), Page(500), Page(200, b"{"), {}, Silence(), system(PowerState="Off"))
    bmc.answer(SYSTEM, *answers)
    assert (await switch(bmc, OFF, deadline=ENOUGH)).power is PowerState.OFF
    assert bmc.resets == ["ForceOff"]


@pytest.mark.parametrize(("status", "expected"), [(401, BmcFailure.AUTH), (404, BmcFailure.UNSUPPORTED)])
async def test_a_permanent_read_failure_ends_the_change_with_sent_set(
    bmc: FakeBmc, status: int, expected: BmcFailure
) -> None:
    bmc.power_after = ()
    bmc.answer(SYSTEM, system(), Page(status))
    error = await failure(bmc, OFF)
    assert error.failure is expected
    assert error.sent
    assert bmc.methods == {"GET": 2, "POST": 1}


async def test_a_timeout_reports_the_last_failed_read(bmc: FakeBmc) -> None:
    bmc.power_after = ()
    bmc.answer(SYSTEM, system(), Page(503))
    error = await failure(bmc, OFF, power_deadline=ENOUGH, power_reread_pause=SOON)
    assert error.failure is BmcFailure.TIMEOUT
    assert f"the last read failed: {SYSTEM} returned HTTP 503" in error.detail


async def test_other_calls_are_served_during_a_slow_power_change(bmc: FakeBmc) -> None:
    """One BMC may serve eight nodes, so the pauses of a change must not hold a slot."""
    bmc.power_after = ()
    async with (
        connect(bmc.ca_file, power_reread_pause=HOUR, power_deadline=2 * HOUR, concurrency=1) as client,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(client.set_power, at(bmc), OFF)
        while not bmc.resets:
            await anyio.lowlevel.checkpoint()
        assert (await client.read(at(bmc))).power is PowerState.ON
        tasks.cancel_scope.cancel()


async def test_a_call_without_a_system_path_is_a_bug_of_the_caller(bmc: FakeBmc) -> None:
    target = BmcTarget(address=bmc.url, credential=CREDENTIAL)
    async with connect(bmc.ca_file) as client:
        for call in (client.set_power(target, ON), client.read(target)):
            with pytest.raises(ValueError, match="system_path"):
                await call
    assert bmc.requests == []


@pytest.mark.full
async def test_the_emulator_is_switched_off_on_and_reset(authority: Authority, tmp_path: Path) -> None:
    observed = Observed("bmc")
    async with (
        simulated_bmc(tmp_path, fake_systems(1), authority=authority, configuration=PROMPT) as emulator,
        connect(emulator.ca_file, credential=f"{emulator.username}:{emulator.password}", observed=observed) as client,
    ):
        target = BmcTarget(address=emulator.base_url, credential=CREDENTIAL, system_path=emulator.systems[0].path)
        for wanted, ends in (
            (OFF, PowerState.OFF),
            (OFF, PowerState.OFF),
            (ON, PowerState.ON),
            (RESTART, PowerState.ON),
        ):
            assert (await client.set_power(target, wanted)).power is ends
            assert (await client.read(target)).power is ends
        assert [operation for operation, _ in observed.requests].count("reset") == 3, "the system was off already"
        await assert_unsupported(client, msgspec.structs.replace(target, system_path="/redfish/v1/Systems/none"))


async def assert_unsupported(client: RedfishBmc, target: BmcTarget) -> None:
    with pytest.raises(BmcError) as raised:
        await client.set_power(target, OFF)
    assert raised.value.failure is BmcFailure.UNSUPPORTED
    assert not raised.value.sent
