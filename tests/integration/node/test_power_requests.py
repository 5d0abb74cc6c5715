"""`set_power` on the real loop: answered with the power that was read back, sent once, and lost by no crash."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import anyio
import msgspec
import pytest
from msgspec.structs import replace

from farrier.model.intents.params import PowerRequest
from farrier.model.machine.bmc import LOGIN_CAP, BmcError, BmcFailure, PowerState
from tests.support import pg, proxy
from tests.support import site as sites
from tests.support.fake_bmc import READING, FakeBmc
from tests.support.loop import PATIENCE
from tests.support.owner import Owner
from tests.support.site import MINUTE, SECOND, Answer, Machine, Site

DUE = 91 * SECOND
LEASE = 15 * SECOND


async def switching(site: Site, machine: Machine, **params: object) -> int:
    """Insert a set_power intent, whose request is sent and held without a response; return the intent's id."""
    site.bmc.hold(only_power=True)
    id_ = await machine.tell("set_power", **params)
    site.wake()
    await site.bmc.called()
    return id_


# --- intents and their answers


@pytest.mark.parametrize(("wanted", "state"), [("off", "off"), ("on", "on"), ("reset", "on")])
async def test_set_power_is_answered_with_the_power_that_was_read_back(site: Site, wanted: str, state: str) -> None:
    machine = await site.with_bmc()
    moves = await machine.moves()
    answer = await machine.ask("set_power", power=wanted)
    assert answer == Answer("accepted", f"power {wanted} done: power is {state}")
    bmc = await machine.bmc()
    assert (bmc["power"], bmc.get("switching"), bmc.get("tries")) == (state, None, None)
    assert site.bmc.sent == [PowerRequest(wanted)]
    assert await machine.moves() == moves, "a change of power moves no layer of the node"


async def test_set_power_may_be_repeated(site: Site) -> None:
    machine = await site.with_bmc()
    for _ in range(3):
        assert (await machine.ask("set_power", power="off")).status == "accepted"
    assert (await machine.bmc())["power"] == "off"


async def test_set_power_stays_pending_until_its_result_is_known_and_later_intents_wait(site: Site) -> None:
    machine = await site.with_bmc()
    first = await switching(site, machine, power="off")
    second = await machine.tell("pause", reason="fire drill")
    site.wake()
    assert (await site.answer(first)).status == (await site.answer(second)).status == "pending"
    assert not site.bmc.cut.is_set(), "a change of power is not cut short"
    site.bmc.let_go()
    await site.settled()
    assert (await site.answer(first)).status == (await site.answer(second)).status == "accepted"
    order = "SELECT array_agg(id ORDER BY answered_at, id) FROM farrier.intents WHERE answered_at IS NOT NULL"
    assert await site.conn.fetchval(order) == [first, second]


async def test_of_two_set_power_intents_only_the_newer_is_done_unless_the_older_has_begun(site: Site) -> None:
    machine = await site.with_bmc()
    answers = await machine.ask_together(("set_power", {"power": "off"}), ("set_power", {"power": "on"}))
    assert [answer.status for answer in answers] == ["superseded", "accepted"]
    assert site.bmc.sent == [PowerRequest.ON]
    first = await switching(site, machine, power="off")
    second = await machine.tell("set_power", power="reset")
    site.bmc.let_go()
    await site.settled()
    assert (await site.answer(first)).status == (await site.answer(second)).status == "accepted"
    assert site.bmc.sent[1:] == [PowerRequest.OFF, PowerRequest.RESET]


async def test_refused_resets_have_the_bmcs_reason_and_do_not_delay_the_next_read(site: Site) -> None:
    """The BMC knows the user, so no refusal is a step toward a locked account."""
    machine = await site.with_bmc()
    said = "HTTP 403: Base.1.8.InsufficientPrivilege: There are insufficient privileges"

    def refuse(*_: object) -> None:
        raise BmcError(BmcFailure.REFUSED, said, credential_version="v1")

    site.bmc.power_script = refuse  # type: ignore[assignment]
    for _ in range(LOGIN_CAP + 1):
        answer = await machine.ask("set_power", power="reset")
        assert answer == Answer("rejected", f"set_power reset: refused: {said}; farrier does not try again")
    before = len(site.bmc.reads)
    await site.wait(DUE)
    assert len(site.bmc.reads) > before
    assert (await machine.bmc()).get("tries") is None


async def test_a_refused_verification_has_the_bmcs_reason_in_history(site: Site) -> None:
    machine = await site.with_bmc()
    said = "HTTP 403: SMC.1.0.OemLicenseNotPassed: Not licensed to perform this request"
    site.bmc.fail(BmcError(BmcFailure.REFUSED, said, credential_version="v1"))
    await machine.asked("manage")
    history = "SELECT reason FROM farrier.history WHERE kind = 'node' AND layer = 'management' ORDER BY version DESC"
    assert await site.conn.fetchval(history) == f"refused: {said}"
    assert (await machine.bmc())["last_error"] == said


async def test_set_power_waits_while_the_node_is_paused_or_verifying(site: Site) -> None:
    machine = await (await site.with_bmc()).asked("pause", reason="fire drill")
    paused = await machine.ask("set_power", power="off")
    assert (paused.status, site.bmc.sent) == ("pending", [])
    await machine.asked("unpause")
    assert (await machine.bmc())["power"] == "off"
    await site.verifying(machine)
    held = await machine.tell("set_power", power="on")
    site.wake()
    assert (await site.answer(held)).status == "pending"
    site.bmc.let_go()
    await site.settled()
    assert (await site.answer(held)).status == "accepted"


# --- a power that is kept


async def test_enforced_power_is_restored_and_other_power_is_only_observed(site: Site) -> None:
    machine = await site.with_bmc()
    site.bmc.power = PowerState.OFF
    await site.wait(DUE)
    assert ((await machine.bmc())["power"], site.bmc.sent) == ("off", [])
    await machine.asked("set_power", power="on", enforce=True)
    assert (await machine.bmc())["desired_power"] == "on"
    site.bmc.power = PowerState.OFF
    await site.wait(DUE)
    assert (site.bmc.power, (await machine.bmc())["power"]) == (PowerState.ON, "on")
    assert site.bmc.sent == [PowerRequest.ON] * 2
    await machine.asked("set_power", power="on")
    assert "desired_power" not in await machine.bmc()
    site.bmc.power = PowerState.OFF
    await site.wait(10 * MINUTE)
    assert len(site.bmc.sent) == 3


# --- crashes


@pytest.mark.matrix(keep=3)
@pytest.mark.parametrize("wanted", PowerRequest)
@pytest.mark.parametrize("dies", ["before it reads", "after it sent", "cut off by its end"])
async def test_a_process_killed_between_the_commits_loses_no_answer_and_resets_nothing_twice(
    db: pg.Database, wanted: PowerRequest, dies: str
) -> None:
    async with sites.opened(db, crash=dies != "cut off by its end") as site:
        machine = await site.with_bmc()
        site.bmc.hold(only_power=dies != "before it reads")
        id_ = await machine.tell("set_power", power=wanted)
        site.wake()
        await site.bmc.called()
        assert (await machine.bmc())["switching"]["power"] == wanted
    await db.advance(LEASE)
    async with sites.opened(db) as later:
        later.bmc.power = PowerState.OFF if wanted is PowerRequest.OFF else PowerState.ON
        await later.settled()
        answer = await later.answer(id_)
        after = await Machine(later, machine.name, machine.id).bmc()
        assert "switching" not in after
        if wanted is PowerRequest.RESET:
            assert later.bmc.sent == []
            assert answer.status == "rejected" and "outcome is unknown" in (answer.reason or "")
        else:
            assert answer == Answer("accepted", f"power {wanted} done: power is {later.bmc.power}")
        assert 1 <= len(after["tries"]) <= 2, "a login whose result is unknown stays counted"


async def test_another_machine_behind_the_address_after_a_crash_is_not_switched(db: pg.Database) -> None:
    async with sites.opened(db, crash=True) as site:
        machine = await site.with_bmc()
        id_ = await switching(site, machine, power="off")
    await db.advance(LEASE)
    async with sites.opened(db) as later:
        later.bmc.read_script = lambda _target: replace(READING, serial="SN-9")
        await later.settled()
        answer = await later.answer(id_)
        assert answer.status == "rejected" and "another machine" in (answer.reason or "")
        assert later.bmc.powers == []


async def test_power_is_still_enforced_after_a_crash(db: pg.Database) -> None:
    async with sites.opened(db, crash=True) as site:
        machine = await (await site.with_bmc()).asked("set_power", power="on", enforce=True)
        site.bmc.hold(only_power=True)
        site.bmc.power = PowerState.OFF
        await db.advance(timedelta(seconds=91))
        site.wake()
        await site.bmc.called()
    await db.advance(LEASE)
    async with sites.opened(db) as later:
        later.bmc.power = PowerState.OFF
        await later.settled()
        assert (later.bmc.power, later.bmc.sent) == (PowerState.ON, [PowerRequest.ON])
        assert (await Machine(later, machine.name, machine.id).bmc())["desired_power"] == "on"


async def test_a_process_killed_at_any_message_resets_at_most_once_and_answers_once(db: pg.Database) -> None:
    """The process dies at each of its messages to the database in turn: the BMC gets one reset or none, and the answer
    reports which, or that the outcome is unknown."""
    async with sites.opened(db) as site:
        machine = await site.with_bmc()
    bmc, cut, done = FakeBmc(), 1, False
    async with proxy.before(db.dsn) as between, db.connect() as conn, db.pool(1) as direct:
        while not done:
            before = len(bmc.sent)
            asking = Machine(Site(db, conn, Owner(direct)), machine.name, machine.id)
            id_ = await asking.tell("set_power", power="reset")
            async with pg.Database(between.dsn).pool(1) as pool, anyio.create_task_group() as doomed:
                dying = Site(db, conn, Owner(pool), bmc=bmc)
                between.watch(dies_at(cut, doomed))
                doomed.start_soon(runs, dying)
                with anyio.fail_after(PATIENCE):
                    while (await dying.answer(id_)).status == "pending":
                        await anyio.lowlevel.checkpoint()
                done = True
                doomed.cancel_scope.cancel()
            await db.advance(MINUTE)
            after = Site(db, conn, Owner(direct), bmc=bmc)
            async with after.owner.running():
                await after.settled()
            sent, (status, reason) = len(bmc.sent) - before, msgspec.structs.astuple(await after.answer(id_))
            assert sent <= 1
            assert (status, sent) == ("accepted", 1) or (status == "rejected" and "outcome is unknown" in reason)
            # A login whose result is unknown counts; wait, so that the login cap does not interfere.
            await db.advance(6 * MINUTE)
            cut += 1
    assert cut > 8


async def runs(site: Site) -> None:
    async with site.owner.running():
        await anyio.sleep_forever()


def dies_at(cut: int, doomed: anyio.abc.TaskGroup) -> Callable[[int], None]:
    def strike(message: int) -> None:
        if message == cut:
            doomed.cancel_scope.cancel()

    return strike
