"""No BMC gets more than three failed logins in five minutes, from any nodes and processes, and with any edits.

The fake BMC client has no limit of its own, unlike the real client, so the tests prove the limit of the database.
"""

from __future__ import annotations

from datetime import timedelta

import anyio
import pytest

from farrier.model.machine.bmc import LOGIN_CAP, LOGIN_WINDOW, BmcError, BmcFailure, BmcReading, BmcTarget
from tests.support import pg
from tests.support import site as sites
from tests.support.fake_bmc import reading
from tests.support.loop import PATIENCE
from tests.support.owner import EVEN, ODD
from tests.support.site import SECOND, Machine, Site

CHASSIS = "https://10.0.0.1"
SYSTEM = CHASSIS + "/redfish/v1/Systems/{}"
BLOCKED = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
# Of the given nodes, those that may not log in now.
OVER_CAP = """
    SELECT farrier.over_login_cap(jsonb_agg(jsonb_build_object(
               'run', id, 'address', $2::text, 'trying', farrier.now(), 'tries', jsonb_build_array(farrier.now()))))
      FROM unnest($1::bigint[]) id
"""
TRIED = """
    INSERT INTO farrier.bmc_logins
    SELECT farrier.bmc_endpoint_of($1), $2, farrier.now() - n * interval '1 min', true FROM generate_series(1, 2) n
"""
LOCK = "SELECT farrier.lock_keys('bmc_login', ARRAY[farrier.bmc_endpoint_of($1)])"


class Account:
    """The account at one BMC, which refuses logins with a wrong password, and records their times."""

    def __init__(self, *sites_: Site) -> None:
        self.sites = sites_
        self.now = timedelta(0)
        self.refused: list[timedelta] = []
        self.good: set[str] = set()
        for site in sites_:
            site.bmc.script = site.bmc.read_script = self._answer

    def _answer(self, target: BmcTarget) -> BmcReading:
        if target.system_path in self.good:
            return reading(target)
        self.refused.append(self.now)
        raise BmcError(BmcFailure.AUTH, "refused", credential_version="v1")

    @property
    def most(self) -> int:
        """The largest number of failed logins within any five minutes."""
        return max(sum(at <= other < at + LOGIN_WINDOW for other in self.refused) for at in self.refused)

    async def wait(self, by: timedelta) -> None:
        self.now += by
        await self.sites[0].db.advance(by)
        for site in self.sites:
            await site.settled()

    async def goes_on(self, minutes: int, *machines: Machine) -> None:
        """Insert an intent `manage` for every node twice a minute."""
        for _ in range(2 * minutes):
            for machine in machines:
                await machine.asked("manage")
            await self.wait(30 * SECOND)


async def behind(site: Site, system: int) -> Machine:
    return await site.register(f"blade-{system}", bmc_address=SYSTEM.format(system), bmc_credential="env:BMC")


async def logins(site: Site) -> int:
    """The number of logins that are stored."""
    return int(await site.conn.fetchval("SELECT count(*) FROM farrier.bmc_logins"))


async def test_nodes_behind_one_bmc_share_its_three_failed_logins(site: Site) -> None:
    account = Account(site)
    machines = [await behind(site, system) for system in (1, 2, 3, 4)]
    await account.goes_on(12, *machines)
    assert account.most == 3
    assert len(account.refused) >= 6, "they go on once the window has passed"


async def test_nodes_of_two_processes_share_the_failed_logins_of_a_bmc(db: pg.Database) -> None:
    async with sites.opened(db, shards=ODD) as one, sites.opened(db, shards=EVEN) as two:
        account = Account(one, two)
        machines = [await behind(one, 1), await behind(two, 2)]
        await account.goes_on(12, *machines)
        assert account.most == 3


async def test_regular_reads_of_two_processes_share_the_failed_logins_of_a_bmc(db: pg.Database) -> None:
    """The password changes while the nodes are manageable, so each node's regular reads fail."""
    async with sites.opened(db, shards=ODD) as one, sites.opened(db, shards=EVEN) as two:
        account = Account(one, two)
        account.good |= {f"/redfish/v1/Systems/{system}" for system in range(1, 7)}
        machines = [await behind(one, system) for system in range(1, 7)]
        await account.wait(6 * SECOND)
        assert [(await machine.look())["management"] for machine in machines] == ["manageable"] * 6
        assert await logins(one) == 0
        account.good.clear()
        for _ in range(24):
            await account.wait(30 * SECOND)
        assert account.most == 3
        assert len(account.refused) >= 6, "they go on once the window has passed"
        account.good |= {f"/redfish/v1/Systems/{system}" for system in range(1, 7)}
        for _ in range(24):
            await account.wait(30 * SECOND)
        assert [(await machine.bmc()).get("sync_failure") for machine in machines] == [None] * 6
        assert await logins(one) == 0


async def test_two_concurrent_commits_do_not_both_get_the_last_login(db: pg.Database) -> None:
    async with sites.opened(db, shards=ODD) as one, sites.opened(db, shards=EVEN) as two, db.connect() as gate:
        account = Account(one, two)
        machines = [await behind(one, 1), await behind(two, 2)]
        assert len(account.refused) == 2
        async with gate.transaction():
            await gate.execute(LOCK, CHASSIS)
            for position, machine in enumerate(machines, start=1):
                await machine.tell("manage")
                with anyio.fail_after(PATIENCE):
                    while await gate.fetchval(BLOCKED) < position:
                        one.wake()
                        two.wake()
                        await anyio.lowlevel.checkpoint()
        for site in (one, two):
            await site.settled()
        assert len(account.refused) == 3
        await account.wait(2 * SECOND)
        assert len(account.refused) == 3
        assert (one.ledger.verdicts + two.ledger.verdicts).count("deferred") == 1


async def test_the_database_has_the_cap_of_the_model(db: pg.Database) -> None:
    async with db.connect() as conn:
        stored = await conn.fetchrow("SELECT login_cap, login_window FROM farrier.read_constants()")
    assert tuple(stored or ()) == (LOGIN_CAP, LOGIN_WINDOW)


async def test_without_its_constants_the_database_grants_no_login(site: Site) -> None:
    machines = [await behind(site, system) for system in range(10)]
    await site.conn.execute("DELETE FROM farrier.constants")
    with pytest.raises(pg.PostgresError, match="returned no rows"):
        await site.conn.fetchval(OVER_CAP, [machine.id for machine in machines], CHASSIS)


@pytest.mark.parametrize(("cap", "window", "granted"), [(4, 300, 2), (8, 300, 6), (4, 30, 4)])
async def test_the_database_grants_as_many_logins_within_the_window_as_its_constants_say(
    site: Site, cap: int, window: int, granted: int
) -> None:
    """Nine nodes log in now; the tenth failed one and two minutes ago."""
    machines = [await behind(site, system) for system in range(10)]
    over = timedelta(seconds=window)
    await site.conn.execute("UPDATE farrier.constants SET login_cap = $1, login_window = $2", cap, over)
    await site.conn.execute(TRIED, CHASSIS, machines[0].id)
    refused = await site.conn.fetchval(OVER_CAP, [machine.id for machine in machines[1:]], CHASSIS)
    assert sorted(refused) == [machine.id for machine in machines[1 + granted :]]


@pytest.mark.parametrize("spelled", ["10.0.0.1:443", "HTTPS://10.0.0.1/redfish/v1/Systems/7"])
async def test_failed_logins_of_a_deleted_node_count_for_the_next_node_at_its_address(site: Site, spelled: str) -> None:
    account = Account(site)
    for name in ("a", "b", "c", "d", "e"):
        machine = await site.register(name, bmc_address=spelled, bmc_credential="env:BMC")
        await machine.asked("manage")
        await machine.asked("delete")
        assert (await machine.look())["status"] == "deleted"
    assert len(account.refused) == 3
    last = await site.register("f", bmc_address=CHASSIS, bmc_credential="env:BMC")
    await account.goes_on(6, last)
    assert account.most == 3


@pytest.mark.parametrize("given", ["registered", "edited", "manageable"])
async def test_a_bmc_that_another_node_gets_keeps_its_count_of_failed_logins(site: Site, given: str) -> None:
    account = Account(site)
    other = None
    if given != "registered":
        account.good.add("/redfish/v1/Systems/8")
        address = "https://10.0.0.2/redfish/v1/Systems/8" if given == "manageable" else None
        other = await site.register("other", bmc_address=address, bmc_credential=address and "env:BMC")
        assert (await other.look())["management"] == ("manageable" if address else "unmanaged")
    first = await site.register("first", bmc_address=CHASSIS, bmc_credential="env:BMC")
    for _ in range(2):
        await first.asked("manage")
    assert len(account.refused) == 3
    await first.asked("clear_bmc")
    if other is None:
        other = await site.register("other", bmc_address=CHASSIS, bmc_credential="env:BMC")
    else:
        await other.asked("set_bmc", address=CHASSIS, credential="env:BMC")
    await account.goes_on(4, other)
    assert len(account.refused) == 3
    await account.goes_on(2, other)
    assert len(account.refused) > 3
    assert account.most == 3


async def test_failed_logins_at_one_bmc_do_not_count_at_another(site: Site) -> None:
    account = Account(site)
    await account.goes_on(1, await site.register(bmc_address=CHASSIS, bmc_credential="env:BMC"))
    account.good.add("/redfish/v1/Systems/1")
    other = await site.register(bmc_address="https://10.0.0.1:8443/redfish/v1/Systems/1", bmc_credential="env:BMC")
    assert (await other.look())["management"] == "manageable"


async def test_a_successful_login_does_not_count_towards_the_cap(site: Site) -> None:
    account = Account(site)
    account.good |= {f"/redfish/v1/Systems/{system}" for system in range(1, 9)}
    machines = [await behind(site, system) for system in range(1, 9)]
    for machine in machines:
        await machine.asked("manage")
        assert (await machine.look())["management"] == "manageable"
    assert not account.refused
    assert await logins(site) == 0


async def test_nodes_behind_a_healthy_bmc_wait_only_for_the_logins_under_way(site: Site) -> None:
    account = Account(site)
    account.good |= {f"/redfish/v1/Systems/{system}" for system in range(1, 7)}
    machines = [await behind(site, system) for system in range(1, 7)]
    site.bmc.hold()
    for machine in machines:
        await machine.tell("manage")
    site.wake()
    with anyio.fail_after(PATIENCE):
        while await logins(site) < 3:
            await anyio.lowlevel.checkpoint()
    site.bmc.let_go()
    await site.settled()
    await account.wait(6 * SECOND)
    await account.wait(6 * SECOND)
    assert [(await machine.look())["management"] for machine in machines] == ["manageable"] * 6
    assert await logins(site) == 0


async def test_old_failures_are_forgotten_when_the_bmc_is_tried_again(site: Site) -> None:
    account = Account(site)
    await account.goes_on(1, await behind(site, 1), await behind(site, 2))
    assert await logins(site) == 3
    await account.wait(LOGIN_WINDOW)
    account.good |= {"/redfish/v1/Systems/1", "/redfish/v1/Systems/2"}
    await account.wait(LOGIN_WINDOW)
    assert await logins(site) == 0
