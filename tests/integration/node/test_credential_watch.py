"""Changes of a node's credential: noticed without an intent, tried at once, and never beyond the login cap."""

from __future__ import annotations

import pytest

from farrier.model.machine.bmc import BmcError, BmcFailure
from tests.support.site import MINUTE, SECOND, Machine, Site

DUE = 91 * SECOND


def refused(version: str) -> BmcError:
    return BmcError(BmcFailure.AUTH, "the BMC refused the credential", credential_version=version)


async def management(machine: Machine) -> str:
    value: str = (await machine.look())["management"]
    return value


async def test_a_new_version_of_a_good_credential_is_verified_in_place_before_it_is_used(site: Site) -> None:
    machine = await (await site.with_bmc()).asked("onboard", mode="manual")
    await (await machine.enroll()).beat()
    site.secrets.current = "v2"
    site.bmc.hold()
    await site.db.advance(DUE)
    await site.held_or_settled()
    assert (len(site.bmc.calls), site.bmc.reads) == (2, []), "verified anew before it is read"
    site.bmc.let_go()
    await site.settled()
    assert await machine.path("management") == ["enroll", "verifying", "manageable", "verifying", "manageable"]
    assert (await machine.state())[0] == "active", "the status does not depend on the BMC"


async def test_a_wrong_new_version_leaves_the_node_in_enroll_with_its_error(site: Site) -> None:
    machine = await site.with_bmc()
    site.secrets.current = "v2"
    site.bmc.fail(refused("v2"))
    await site.wait(DUE)
    bmc = await machine.bmc()
    assert (await management(machine), bmc["failure"], bmc["tried_version"], bmc["good_version"]) == (
        "enroll",
        "auth",
        "v2",
        "v1",
    )


async def test_failed_verifications_do_not_restart_the_clock_of_enroll(site: Site) -> None:
    site.bmc.fail(BmcError(BmcFailure.UNREACHABLE, "no route"))
    machine = await site.with_bmc()
    for _ in range(8):
        await site.wait(5 * MINUTE)
    assert len(site.bmc.calls) > 5
    clock = "SELECT state FROM farrier.node_clocks WHERE node_id = $1 AND above_since IS NOT NULL"
    assert await site.conn.fetchval(clock, machine.id) == "enroll"


async def test_a_failing_bmc_is_verified_no_longer_without_auto_manage(site: Site) -> None:
    site.bmc.fail(BmcError(BmcFailure.UNREACHABLE, "no route"))
    machine = await site.with_bmc()
    await site.wait(5 * MINUTE)
    await machine.asked("set", auto_manage=False)
    tried = len(site.bmc.calls)
    for _ in range(8):
        await site.wait(5 * MINUTE)
    assert len(site.bmc.calls) == tried
    clock = "SELECT count(*) FROM farrier.node_clocks WHERE node_id = $1 AND kind = 'management'"
    assert await site.conn.fetchval(clock, machine.id) == 0, "no verification is pending"


async def test_a_failed_login_waits_for_its_back_off_or_for_a_new_version_whichever_comes_first(site: Site) -> None:
    site.bmc.fail(refused("v1"))
    machine = await site.with_bmc()
    for _ in range(4):
        await site.wait(MINUTE)
    tried, looks = len(site.bmc.calls), site.secrets.looks
    assert (tried, await management(machine)) == (3, "enroll"), "the next try comes only after minutes"
    await site.wait(2 * MINUTE)
    assert (len(site.bmc.calls), site.secrets.looks) == (tried, looks + 1), "the BMC is not called"
    site.secrets.current = "v2"
    site.bmc.recover()
    await site.wait(MINUTE)
    assert await management(machine) == "manageable"


@pytest.mark.parametrize("known", [False, True], ids=["never there", "taken away and put back"])
async def test_a_secret_that_was_missing_is_used_as_soon_as_it_is_there(site: Site, known: bool) -> None:
    machine = None
    if known:
        machine = await site.with_bmc()
    site.secrets.current = None
    site.bmc.fail(BmcError(BmcFailure.INCOMPLETE, "credential env:BMC: is gone", dialled=False))
    machine = await (machine.asked("manage") if machine is not None else site.with_bmc())
    for _ in range(5):
        await site.wait(MINUTE)
    assert (await management(machine), (await machine.bmc())["failure"]) == ("enroll", "incomplete")
    site.secrets.current = "v1"
    site.bmc.recover()
    await site.wait(MINUTE)
    assert await management(machine) == "manageable"


async def test_a_failure_that_no_new_secret_mends_is_retried_once_only(site: Site) -> None:
    """The address lies in no allowed network: the failure has the same class, although the credential resolves."""
    site.bmc.fail(BmcError(BmcFailure.INCOMPLETE, "10.0.0.1 is in no allowed network", dialled=False))
    machine = await site.with_bmc()
    for _ in range(10):
        await site.wait(MINUTE)
    assert len(site.bmc.calls) == 2
    assert await management(machine) == "enroll"


async def test_a_manageable_node_reports_a_missing_secret_and_goes_on_once_it_is_back(site: Site) -> None:
    machine = await site.with_bmc()
    site.secrets.current = None
    await site.wait(DUE)
    bmc = await machine.bmc()
    assert (bmc["sync_failure"], bmc["sync_error"]) == ("incomplete", "credential env:BMC: is gone")
    assert (site.bmc.reads, bmc.get("tries")) == ([], None)
    for _ in range(5):
        await site.wait(MINUTE)
    site.secrets.current = "v1"
    await site.wait(MINUTE)
    await site.wait(MINUTE)
    assert "sync_failure" not in await machine.bmc()
    assert await management(machine) == "manageable"


async def test_a_manageable_node_that_is_refused_is_verified_with_a_new_version_once_the_cap_allows(site: Site) -> None:
    machine = await site.with_bmc()
    site.bmc.fail(refused("v1"))
    for _ in range(16):
        await site.wait(MINUTE / 4)
    assert len((await machine.bmc())["tries"]) == 3
    dialled = site.bmc.logins
    site.secrets.current = "v2"
    site.bmc.recover()
    await site.wait(MINUTE)
    assert (site.bmc.logins, await management(machine)) == (dialled, "manageable"), (
        "a new secret does not override the login cap"
    )
    await site.wait(5 * MINUTE)
    assert (await machine.bmc())["good_version"] == "v1"
    assert (await machine.path("management"))[-2:] == ["verifying", "manageable"]
    assert len(site.bmc.calls) == 2
