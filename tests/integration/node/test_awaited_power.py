"""A power action that was sent is awaited: gracefully first, up to a deadline, and urgent intents overtake it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from msgspec.structs import replace

from farrier.model.intents.params import PowerRequest
from farrier.model.machine.bmc import BmcError, BmcFailure, BmcReading, BmcTarget, NotYet, PowerState
from tests.support import pg
from tests.support import site as sites
from tests.support.fake_bmc import READING
from tests.support.site import MINUTE, SECOND, Machine, Site

OFF, ON = PowerRequest.OFF, PowerRequest.ON
NO_EFFECT = NotYet(BmcFailure.TIMEOUT, "the system stays On after off was sent", sent=True)


async def in_service(site: Site) -> Machine:
    return await (await site.active()).asked("set_bmc", address="https://10.0.0.1", credential="env:BMC")


def slow(site: Site, *, only_graceful: bool = True) -> None:
    """From now on actions are sent without an effect; with `only_graceful`, a forced action has its effect at once."""

    def script(_target: BmcTarget, wanted: PowerRequest) -> BmcReading:
        if site.bmc.graceful[-1] or not only_graceful:
            raise NO_EFFECT
        site.bmc.power = PowerState.OFF if wanted is OFF else PowerState.ON
        return replace(READING, power=site.bmc.power)

    site.bmc.power_script = script


async def sent(site: Site, machine: Machine, **params: object) -> int:
    """Insert a set_power intent, and return its id once its action was sent."""
    id_ = await machine.tell("set_power", **params)
    await site.settled()
    assert (await site.answer(id_)).status == "pending" and "sent_at" in (await machine.bmc())["switching"]
    return id_


# --- how a machine is switched off


async def test_off_lets_the_operating_system_of_a_node_in_service_shut_down(site: Site) -> None:
    machine = await in_service(site)
    slow(site)
    id_ = await sent(site, machine, power="off")
    await site.wait(4 * MINUTE)
    assert (await site.answer(id_)).status == "pending"
    site.bmc.power = PowerState.OFF
    await site.wait(2 * SECOND)
    answer = await site.answer(id_)
    assert (answer.status, answer.reason) == ("accepted", "power off done: power is off")
    assert (site.bmc.sent, site.bmc.graceful) == ([OFF], [True])


@pytest.mark.parametrize(("params", "after"), [({}, 300), ({"force_after": 40}, 40)])
async def test_a_machine_that_does_not_shut_down_is_forced_off_after_the_deadline(
    site: Site, params: dict[str, int], after: int
) -> None:
    machine = await in_service(site)
    slow(site)
    id_ = await sent(site, machine, power="off", **params)
    await site.wait((after - 5) * SECOND)
    assert site.bmc.graceful == [True], "it has its time"
    await site.wait(10 * SECOND)
    answer = await site.answer(id_)
    assert answer.status == "accepted" and "forced" in str(answer.reason)
    assert (site.bmc.sent, site.bmc.graceful) == ([OFF, OFF], [True, False])


@pytest.mark.parametrize("refusal", [BmcFailure.PROTOCOL, BmcFailure.REFUSED, BmcFailure.UNSUPPORTED])
async def test_a_bmc_that_refuses_a_graceful_shutdown_is_asked_to_force_it_after_the_deadline(
    site: Site, refusal: BmcFailure
) -> None:
    machine = await in_service(site)
    slow(site)
    force = site.bmc.power_script

    def script(target: BmcTarget, wanted: PowerRequest) -> BmcReading:
        if site.bmc.graceful[-1]:
            raise BmcError(refusal, "not now")
        return force(target, wanted)

    site.bmc.power_script = script
    id_ = await sent(site, machine, power="off")
    await site.wait(5 * MINUTE + SECOND)
    assert (await site.answer(id_)).status == "accepted"


@pytest.mark.parametrize(
    ("in_use", "params", "graceful"),
    [
        (True, {}, True),
        (True, {"mode": "graceful"}, True),
        (True, {"mode": "force"}, False),
        (False, {}, False),
        (False, {"mode": "graceful"}, True),
    ],
)
async def test_the_mode_depends_on_the_intent_and_on_whether_the_node_is_in_service(
    site: Site, in_use: bool, params: dict[str, str], graceful: bool
) -> None:
    machine = await (in_service(site) if in_use else site.with_bmc())
    await machine.asked("set_power", power="off", **params)
    assert (site.bmc.sent, site.bmc.graceful) == ([OFF], [graceful])


async def test_a_reset_of_a_node_in_service_is_a_shutdown_and_a_start(site: Site) -> None:
    machine = await in_service(site)
    slow(site)
    id_ = await sent(site, machine, power="reset")
    site.bmc.power = PowerState.OFF
    site.bmc.power_script = lambda _target, _wanted: on(site)
    await site.wait(2 * SECOND)
    answer = await site.answer(id_)
    assert (answer.status, answer.reason) == ("accepted", "power reset done: power is on")
    assert site.bmc.sent == [OFF, ON]


def on(site: Site) -> BmcReading:
    site.bmc.power = PowerState.ON
    return READING


async def test_enforced_off_of_a_node_in_service_is_graceful_too(site: Site) -> None:
    machine = await in_service(site)
    await machine.asked("set_power", power="off", enforce=True)
    site.bmc.power = PowerState.ON
    await site.wait(6 * MINUTE)
    assert site.bmc.graceful == [True, True]


@pytest.mark.parametrize(
    ("params", "why"),
    [
        ({"power": "on", "mode": "force"}, "nothing is switched off"),
        ({"power": "on", "force_after": 60}, "nothing is switched off"),
        ({"power": "off", "mode": "force", "force_after": 60}, "mode force has no deadline"),
    ],
)
async def test_a_mode_that_cannot_apply_is_rejected(site: Site, params: dict[str, object], why: str) -> None:
    answer = await (await site.with_bmc()).ask("set_power", **params)
    assert answer.status == "rejected" and why in str(answer.reason)
    assert site.bmc.powers == []


# --- what is answered meanwhile


async def test_a_quarantine_overtakes_a_set_power_that_has_no_effect_yet(site: Site) -> None:
    machine = await in_service(site)
    slow(site, only_graceful=False)
    waits = await sent(site, machine, power="off", mode="force")
    behind = await machine.tell("drain", reason="later")
    assert (await machine.ask("quarantine", reason="smoke")).status == "accepted"
    assert (await machine.state())[0] == "quarantined"
    assert [(await site.answer(id_)).status for id_ in (waits, behind)] == ["pending", "pending"]
    await site.wait(2 * MINUTE + SECOND)
    answer = await site.answer(waits)
    assert answer.status == "rejected" and "still not off 2m after" in str(answer.reason)
    assert (await site.answer(behind)).status == "accepted"
    assert site.bmc.sent == [OFF], "nothing was sent twice"


async def test_a_cancel_overtakes_a_set_power_that_has_no_effect_yet(site: Site) -> None:
    machine = await site.enrolled()
    await machine.asked("set_bmc", address="https://10.0.0.1", credential="env:BMC")
    slow(site, only_graceful=False)
    waits = await sent(site, machine, power="off")
    assert (await machine.ask("cancel")).status == "accepted"
    assert (await machine.state())[1] == "cancelled"
    assert (await site.answer(waits)).status == "pending"


async def test_a_quarantine_does_not_wait_for_a_bmc_that_hangs_while_the_power_is_awaited(site: Site) -> None:
    machine = await in_service(site)
    slow(site)
    waits = await sent(site, machine, power="off")
    site.bmc.hold()
    await site.pass_time(2 * SECOND)
    site.wake()
    await site.bmc.called()
    urgent = await machine.tell("quarantine", reason="smoke")
    await site.cut_short()
    assert (await site.answer(urgent)).status == "accepted"
    site.bmc.power = PowerState.OFF
    await site.wait(2 * SECOND)
    assert (await site.answer(waits)).status == "accepted", "the interrupted read was repeated"


async def test_a_forced_off_replaces_a_graceful_one_that_is_awaited(site: Site) -> None:
    machine = await in_service(site)
    slow(site)
    first = await sent(site, machine, power="off")
    assert (await machine.ask("set_power", power="off", mode="force")).status == "accepted"
    assert (await site.answer(first)).status == "superseded"
    assert (site.bmc.power, site.bmc.graceful) == (PowerState.OFF, [True, False])


async def test_a_peer_goes_on_waiting_after_a_crash_and_sends_nothing_again(db: pg.Database) -> None:
    async with sites.opened(db, crash=True) as site:
        machine = await in_service(site)
        slow(site)
        id_ = await sent(site, machine, power="off")
    async with sites.opened(db) as peer:
        await peer.wait(15 * SECOND)
        assert (await peer.answer(id_)).status == "pending"
        peer.bmc.power = PowerState.OFF
        await peer.wait(MINUTE)
        assert ((await peer.answer(id_)).status, peer.bmc.sent) == ("accepted", [])


# --- what was asked to be kept


@pytest.mark.parametrize(
    "failure", [BmcFailure.UNREACHABLE, BmcFailure.TIMEOUT, BmcFailure.PROTOCOL, BmcFailure.REFUSED]
)
async def test_an_enforced_power_whose_first_try_fails_is_kept(site: Site, failure: BmcFailure) -> None:
    machine = await site.with_bmc()

    def script(_target: BmcTarget, _wanted: PowerRequest) -> BmcReading:
        raise BmcError(failure, "not now")

    switches, site.bmc.power_script = site.bmc.power_script, script
    answer = await machine.ask("set_power", power="off", enforce=True)
    assert answer.status == "accepted" and "not done yet" in str(answer.reason) and "not now" in str(answer.reason)
    assert (await machine.bmc())["desired_power"] == "off"
    site.bmc.power_script = switches
    await site.wait(7 * MINUTE)
    assert site.bmc.power is PowerState.OFF


async def test_an_enforced_power_that_has_no_effect_is_kept_within_the_bounds_of_the_bmc(site: Site) -> None:
    machine = await site.with_bmc()
    slow(site, only_graceful=False)
    id_ = await sent(site, machine, power="off", enforce=True)
    await site.wait(2 * MINUTE + SECOND)
    answer = await site.answer(id_)
    assert answer.status == "accepted" and "not done yet" in str(answer.reason)
    await site.wait_until(is_done(site, times=3))
    assert (await machine.bmc())["desired_power"] == "off"


def is_done(site: Site, *, times: int) -> Callable[[], Awaitable[bool]]:
    async def done() -> bool:
        return len(site.bmc.sent) >= times

    return done


@pytest.mark.parametrize(
    ("params", "failure", "says"),
    [
        ({}, BmcFailure.UNREACHABLE, "farrier does not try again"),
        ({"enforce": True}, BmcFailure.UNSUPPORTED, "farrier does not try again"),
    ],
)
async def test_a_power_that_is_not_kept_says_so(
    site: Site, params: dict[str, bool], failure: BmcFailure, says: str
) -> None:
    machine = await site.with_bmc()
    site.bmc.power_script = refuse(BmcError(failure, "not now"))
    answer = await machine.ask("set_power", power="off", **params)
    assert answer.status == "rejected" and says in str(answer.reason)
    assert "desired_power" not in await machine.bmc()


def refuse(error: BmcError) -> Callable[[BmcTarget, PowerRequest], BmcReading]:
    def script(_target: BmcTarget, _wanted: PowerRequest) -> BmcReading:
        raise error

    return script


async def test_a_target_power_outlives_a_new_address_of_the_bmc_and_ends_with_the_machine(site: Site) -> None:
    machine = await site.with_bmc()
    await machine.asked("set_power", power="off", enforce=True)
    moved = await machine.ask("set_bmc", address="https://10.9.0.1")
    assert "no longer enforces" not in str(moved.reason)
    assert (await machine.bmc())["desired_power"] == "off"
    replaced = await machine.ask("set_bmc", address="https://10.0.0.2", replace=True)
    assert "farrier no longer enforces power off" in str(replaced.reason)
    await machine.asked("set_power", power="on", enforce=True)
    assert "farrier no longer enforces power on" in str((await machine.ask("clear_bmc")).reason)


async def test_set_bmc_says_what_has_to_follow_if_farrier_does_not_verify_by_itself(site: Site) -> None:
    machine = await site.register(auto_manage=False)
    assert "no BMC credential" in str((await machine.ask("set_bmc", address="https://10.0.0.1")).reason)
    assert "after the intent manage" in str((await machine.ask("set_bmc", credential="env:BMC")).reason)
