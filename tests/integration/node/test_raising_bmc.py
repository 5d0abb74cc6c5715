"""A step at a BMC that raises an unexpected error is a failure of class `internal`: shown, backed off, and no login."""

from __future__ import annotations

from farrier.model.machine.bmc import BmcFailure
from tests.integration.cli.conftest import Prompt
from tests.support.acceptance import called
from tests.support.site import MINUTE, SECOND, Machine, Site

DUE = 91 * SECOND


def recorded(site: Site) -> int:
    """The number of errors that the loop has recorded; they are expected here."""
    number = len(site.ledger.errors)
    site.ledger.errors.clear()
    return number


async def failure(machine: Machine) -> tuple[str | None, str | None, object]:
    bmc = await machine.bmc()
    return bmc.get("failure"), bmc.get("sync_failure"), bmc.get("tries")


async def test_a_read_that_raises_is_internal_and_backs_off_without_counting_logins(site: Site) -> None:
    machine = await site.with_bmc()
    site.bmc.fail(KeyError("a bug"))
    before = called(site)
    await site.wait(DUE)
    assert await failure(machine) == (None, BmcFailure.INTERNAL, None)
    assert (called(site) - before, recorded(site)) == (1, 1), "not again at once"
    await site.wait(20 * SECOND)
    assert called(site) - before == 1
    site.bmc.recover()
    await site.wait(MINUTE)
    assert await failure(machine) == (None, None, None)


async def test_a_verification_that_raises_is_internal_and_backs_off_without_counting_logins(site: Site) -> None:
    site.bmc.fail(KeyError("a bug"))
    machine = await site.with_bmc()
    assert await failure(machine) == (BmcFailure.INTERNAL, None, None)
    assert "a bug in farrier" in (await machine.bmc())["last_error"]
    assert (called(site), recorded(site)) == (1, 1)
    site.bmc.recover()
    await site.wait(31 * SECOND)
    assert (await machine.look())["management"] == "manageable"


async def test_a_list_and_why_show_the_class_of_a_crash(site: Site) -> None:
    farrier = Prompt(FARRIER_DATABASE_DSN=site.db.dsn)
    served = await site.with_bmc()
    site.bmc.fail(KeyError("a bug"))
    await site.wait(DUE)
    fresh = await site.with_bmc()
    recorded(site)
    lines = {line.split()[0]: line for line in (await farrier("node", "list", "--failed")).out.splitlines()}
    assert lines[served.name].endswith("power unreadable: internal")
    assert lines[fresh.name].endswith("BMC: internal")
    listed = {each["name"]: each for each in (await farrier("node", "list", "--json")).json}
    assert listed[served.name]["power_failure"] == listed[fresh.name]["bmc_failure"] == "internal"
    for machine in (served, fresh):
        said = (await farrier("node", "why", machine.name)).out
        assert "internal" in said and "a bug in farrier" in said


async def test_a_set_power_that_raises_is_answered_and_counts_no_login(site: Site) -> None:
    machine = await site.with_bmc()
    site.bmc.power_script = site.bmc.script  # type: ignore[assignment]
    answer = await machine.ask("set_power", power="off")
    assert answer.status == "rejected" and "internal: a bug in farrier" in str(answer.reason)
    assert "may still take effect" in str(answer.reason)
    assert ((await failure(machine))[2], recorded(site), len(site.bmc.powers)) == (None, 1, 1)


async def test_an_adoption_that_raises_waits_for_an_operator_and_counts_no_login(site: Site) -> None:
    machine = await site.with_bmc(agentless=True)
    site.bmc.fail(KeyError("a bug"))
    await machine.asked("adopt")
    assert (await machine.look())["management"] == "adopt_failed"
    assert ((await failure(machine))[2], recorded(site)) == (None, 1)
