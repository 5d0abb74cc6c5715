"""Actions of people, agents, monitors and BMCs in any order, through the real loop: the invariants hold after every
commit, also if the database's clock is set back.

Hypothesis generates the scripts. Each row of the history has the version of its commit, so the test reconstructs all
layers after each commit and checks them. Neither the model nor the database may refuse a commit of the loop.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from typing import Any, TypeAlias

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from farrier.io.connections.pulse import PostgresPulse
from farrier.model.intents.actions import Action
from farrier.model.machine.bmc import BmcError, BmcFailure
from farrier.model.node.snapshot import TaskType
from tests.support import pg
from tests.support import site as sites
from tests.support.judged import held_after_every_commit, holds_now
from tests.support.monitors import grant, report
from tests.support.site import HOUR, MINUTE, SECOND, Machine, Site

Act: TypeAlias = Callable[[Machine], Awaitable[object]]

PARAMS: dict[Action, list[dict[str, Any]]] = {
    Action.SET: [{"agentless": True}, {"agentless": False}, {"macs": ["02:00:00:00:00:09"], "site": "dc-2"}],
    Action.RELEASE: [{}, {"reason": "cleaned by hand"}],
    Action.SET_BMC: [{"credential": "env:OTHER"}, {"address": "https://10.1.0.1", "credential": "env:B"}],
    Action.SET_POWER: [{"power": "on"}],
    Action.ONBOARD: [{"mode": "manual"}, {"mode": "deploy"}],
    Action.QUARANTINE: [{"reason": "looked at"}],
    Action.DRAIN: [{}, {"force": True, "reason": "dead"}],
    Action.REMOVE: [{}, {"force": True, "reason": "dead"}],
    Action.DECOMMISSION: [
        {"mode": "soft_reset"},
        {"mode": "full_decommission", "force": True, "leave_on": True, "reason": "dead"},
    ],
    Action.PAUSE: [{"reason": "fire drill"}],
}
OF_A_DELETED_NODE = {"FR403", "FR404", "FR410"}


def asks(*requests: tuple[Action, dict[str, Any]]) -> Act:
    async def ask(machine: Machine) -> None:
        await machine.ask_together(*requests)

    return named(ask, "asks", *requests)


def beats(*alerts: str, **health: Any) -> Act:
    async def beat(machine: Machine) -> None:
        await machine.beat(*alerts, **health)

    return named(beat, "beats", *alerts, health)


def works(*, succeeded: bool, times: int) -> Act:
    """Agents claim and end all queued tasks."""

    async def work(machine: Machine) -> None:
        for type_ in TaskType:
            for _ in range(times):
                lease = await machine.claim(type_)
                if lease is not None:
                    await machine.end(lease, succeeded=succeeded)

    return named(work, "works", succeeded, times)


async def claims(machine: Machine) -> None:
    for type_ in TaskType:
        await machine.claim(type_, 10 * SECOND)


def waits(by: timedelta) -> Act:
    async def wait(machine: Machine) -> None:
        await machine.site.wait(by)

    return named(wait, "waits", by)


def bmc(failure: BmcFailure | None) -> Act:
    async def change(machine: Machine) -> None:
        machine.site.bmc.recover()
        if failure is not None:
            machine.site.bmc.fail(BmcError(failure, "no", credential_version="v1"))

    return named(change, "bmc", failure)


def monitor(**given: Any) -> Act:
    """A monitor states its condition, or ends it."""

    async def states(machine: Machine) -> None:
        await report(machine.site.conn, {"node": machine.name, "id": "gpu/xid-79", "effect": "quarantine", **given})
        await machine.site.settled()

    return named(states, "monitor", given)


async def clock_is_set_back(machine: Machine) -> None:
    await machine.site.db.advance(-2 * HOUR)
    async with machine.site.db.pool(1) as connections:
        pulse = PostgresPulse(connections)
        assert await pulse.beat() is not None
        while (await pulse.mend()).more:
            pass
    await machine.site.settled()


async def enrols(machine: Machine) -> None:
    await machine.enroll()


def named(act: Act, *words: object) -> Act:
    """Give an act a name that is readable in a failing script."""
    act.__qualname__ = " ".join(map(str, words))
    return act


REQUESTS = st.sampled_from([(action, params) for action in Action for params in PARAMS.get(action, [{}])])
ACTS = st.one_of(
    st.lists(REQUESTS, min_size=1, max_size=3).map(lambda requests: asks(*requests)),
    st.sampled_from(
        [
            enrols,
            beats(),
            beats("xid-79"),
            beats(ssh_seed="failed"),
            works(succeeded=True, times=1),
            works(succeeded=False, times=5),
            claims,
            monitor(),
            monitor(effect="note"),
            monitor(ends=True),
            clock_is_set_back,
            waits(31 * SECOND),
            waits(4 * MINUTE),
            waits(HOUR),
            bmc(None),
            bmc(BmcFailure.UNREACHABLE),
            bmc(BmcFailure.AUTH),
        ]
    ),
)


@pytest.fixture(scope="module")
async def site(pg_server: pg.Server) -> AsyncIterator[Site]:
    async with pg_server.database() as db, sites.opened(db) as opened:
        await grant(opened.conn, effect="quarantine", lasts=30 * MINUTE)
        yield opened


LIVES = settings(deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
any_life = given(begins=st.integers(0, 3), script=st.lists(ACTS, min_size=5, max_size=25))


@settings(LIVES, max_examples=15)
@any_life
async def test_the_invariants_hold_after_every_commit(site: Site, begins: int, script: list[Act]) -> None:
    await lives(site, begins, script)


@pytest.mark.full
@settings(LIVES, max_examples=60)
@any_life
async def test_the_invariants_hold_in_many_generated_lives(site: Site, begins: int, script: list[Act]) -> None:
    await lives(site, begins, script)


async def lives(site: Site, begins: int, script: list[Act]) -> None:
    site.bmc.recover()
    machine = await (site.register, site.with_bmc, site.active, site.retired)[begins]()
    for act in script:
        try:
            await act(machine)
        except pg.PostgresError as error:
            if error.sqlstate not in OF_A_DELETED_NODE:
                raise
            await site.settled()
        await holds_now(machine)
    await held_after_every_commit(machine)
