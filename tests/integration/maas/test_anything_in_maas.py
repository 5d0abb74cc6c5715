"""Actions of people, agents, regions and processes on nodes in MAAS, in any order, through the real loop: the
invariants hold after every commit, no forbidden request is sent, and no node waits for MAAS for ever.

Hypothesis generates the scripts. People send requests of the MAAS API to the simulated region as another administrator.
A process dies while a change that it has sent is held.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from functools import partial
from typing import Any, TypeAlias

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from farrier.handlers.node.onboarding.deploy_failure import START
from farrier.model.intents.actions import Action
from farrier.model.node.snapshot import TaskType
from farrier.sim.maas import ADMIN, OPERATOR, Broken, CommissionFate, DeployFate, Fault, Nature, Region, Status, User
from tests.support import onboarded, pg
from tests.support import site as sites
from tests.support.judged import held_after_every_commit, holds_now
from tests.support.maas_region import Caller
from tests.support.onboarded import QUICK, UNSYNCED, maas_id
from tests.support.site import HOUR, MINUTE, SECOND, Machine, Site
from tests.support.wire import Blow, Nth, Wire

# Another process takes the shards over after this time of the database's clock.
LEASE = 16 * SECOND
# Time in which every stage can make all its attempts, with their back-offs, before it waits for an operator.
PATIENCE = timedelta(hours=24)
OF_A_DELETED_NODE = {"FR401", "FR403", "FR404", "FR410"}
SOMEBODY = User(username="somebody", key="someconsumerkey01:sometokenkey00001:somesecretsomesecretsomesecretsome")

PARAMS: dict[Action, list[dict[str, Any]]] = {
    Action.SET: [{"model": "h200"}, {"labels": {"rack": "7"}, "auto_manage": False}],
    Action.RELEASE: [{}, {"reason": "cleaned by hand"}],
    Action.SET_BMC: [{"credential": "env:OTHER"}],
    Action.SET_POWER: [{"power": "on"}],
    Action.ONBOARD: [{"mode": "deploy"}],
    Action.QUARANTINE: [{"reason": "looked at"}],
    Action.DRAIN: [{}],
    Action.REMOVE: [{}, {"remove_maas": True}],
    Action.DECOMMISSION: [{"mode": "reimage"}, {"mode": "full_decommission"}, {"mode": "storage_cleanup"}],
    Action.PAUSE: [{"reason": "fire drill"}],
}
# Intents that the scripts have more often than others, because they lead through MAAS.
OFTEN = [
    (Action.ONBOARD, {"mode": "deploy"}),
    (Action.DECOMMISSION, {"mode": "reimage"}),
    (Action.DECOMMISSION, {"mode": "full_decommission"}),
    (Action.CANCEL, {}),
    (Action.RESTART_CLEAN, {}),
    (Action.RETRY_STAGE, {}),
    (Action.ADOPT_OBSERVED_STATE, {}),
]
BY_AGENTS = {"drain_node", "force_release_allocations", "cleanup_storage", "scrub_gpu", "validate_clean_node"}


class Life:
    """One node, and the processes that run it one after the other."""

    def __init__(self, db: pg.Database, stack: AsyncExitStack) -> None:
        self._db = db
        self._stack = stack
        self.wire = Wire(Region(durations=QUICK, users=(ADMIN, OPERATOR, SOMEBODY)))
        self.node: Machine

    @property
    def site(self) -> Site:
        return self.node.site

    @property
    def region(self) -> Region:
        return self.wire.region

    async def process(self) -> Site:
        """End the process, and start the next one."""
        await self._stack.aclose()
        return await self._stack.enter_async_context(
            sites.opened(self._db, region=self.wire, config=UNSYNCED, crash=True)
        )

    async def dies(self) -> None:
        """The process dies at once, and another takes over when the lease has expired."""
        key = self.node.key
        site = await self.process()
        self.node = Machine(site, self.node.name, self.node.id)
        self.node.key = key
        self.wire.let_go()
        self.region.advance(LEASE)
        await self._db.advance(LEASE)
        await site.settled()

    async def record(self) -> Any:
        return self.region.machines.get(await maas_id(self.node) or "")


Act: TypeAlias = Callable[[Life], Awaitable[object]]


@asynccontextmanager
async def life(server: pg.Server, begins: int) -> AsyncIterator[Life]:
    async with server.database() as db, AsyncExitStack() as stack:
        it = Life(db, stack)
        site = await it.process()
        await site.settled()
        it.node = await onboarded.manageable(site)
        if begins > 0:
            await onboarded.begun(it.node)
        if begins > 1:
            await onboarded.deployed(it.node)
        if begins > 2:
            await onboarded.enrolled(it.node)
        if begins > 3:
            await it.node.asked("decommission", mode="full_decommission" if begins > 4 else "reimage")
        yield it


# --- what may happen


def named(act: Act, *words: object) -> Act:
    """Give an act a name that is readable in a failing script."""
    act.__qualname__ = " ".join(map(str, words))
    return act


def asks(*requests: tuple[Action, dict[str, Any]]) -> Act:
    async def ask(it: Life) -> None:
        await it.node.ask_together(*requests)

    return named(ask, "asks", *requests)


def waits(by: timedelta) -> Act:
    async def wait(it: Life) -> None:
        await it.site.wait(by)

    return named(wait, "waits", by)


def strikes(blow: Blow, number: int = 1) -> Act:
    """Inject a fault into the change with this number from now on; when the change is held, its process dies."""

    async def strike(it: Life) -> None:
        it.wire.strike = Nth(number, blow)

    return named(strike, "strikes", blow, number)


def answers_badly(fault: Fault) -> Act:
    async def answer(it: Life) -> None:
        it.region.faults.add(msgspec.structs.replace(fault))

    return named(answer, "answers badly", fault)


def fares(**fate: Any) -> Act:
    async def fare(it: Life) -> None:
        it.region.default_nature = Nature(**fate)

    return named(fare, "fares", fate)


def human(op: str, *, user: User = SOMEBODY, **form: str) -> Act:
    """A person sends a request to MAAS, which may refuse it."""

    async def act(it: Life) -> None:
        machine = await it.record()
        if machine is not None:
            answer = await Caller(it.region, user).post(f"machines/{machine.system_id}/?op={op}", **form)
            assert "Unrecognised signature" not in answer.text, f"the simulated region has no operation {op}"

    return named(act, "human", op, user.username, form)


async def human_deletes(it: Life) -> None:
    machine = await it.record()
    if machine is not None:
        await Caller(it.region, SOMEBODY).send("DELETE", f"machines/{machine.system_id}/")


async def human_renames(it: Life) -> None:
    machine = await it.record()
    if machine is not None:
        await Caller(it.region, SOMEBODY).send("PUT", f"machines/{machine.system_id}/", {"hostname": "renamed"})


async def human_marks_broken(it: Life) -> None:
    """A person marks the machine broken. The simulated region has only the effect of this operation."""
    machine = await it.record()
    if machine is not None:
        it.region.move(machine, Status.BROKEN)


async def human_takes(it: Life) -> None:
    """Another user releases the machine, and deploys it at once."""
    await human("release")(it)
    await human("deploy")(it)


async def enrols(it: Life) -> None:
    """If the machine is deployed, its agent enrolls and sends a heartbeat."""
    machine = await it.record()
    if machine is not None and machine.status is Status.DEPLOYED and machine.user_data:
        await it.node.enroll(onboarded.token_of(machine))
        await it.node.beat()


async def beats(it: Life) -> None:
    await it.node.beat()


def works(*, succeeded: bool, times: int = 1) -> Act:
    """Agents claim and end all queued tasks."""

    async def work(it: Life) -> None:
        for _ in range(times):
            for type_ in TaskType:
                lease = await it.node.claim(type_)
                if lease is not None:
                    await it.node.end(lease, succeeded=succeeded)

    return named(work, "works", succeeded, times)


async def is_cleaned(it: Life) -> None:
    """Agents end all tasks of a decommission, one after the other."""
    for _ in range(6):
        await works(succeeded=True)(it)


async def goes_on(it: Life) -> None:
    """Let time pass for MAAS, then let the agent enroll and carry out its tasks."""
    for _ in range(3):
        await waits(MINUTE)(it)
    await enrols(it)
    await is_cleaned(it)


async def dies(it: Life) -> None:
    await it.dies()


ALL_REQUESTS = [(action, params) for action in Action for params in PARAMS.get(action, [{}])]
REQUESTS = st.one_of(st.sampled_from(OFTEN), st.sampled_from(ALL_REQUESTS))
PAGE = b"<html><body>502 Bad Gateway</body></html>"
ACTS = st.one_of(
    st.just(goes_on),
    st.lists(REQUESTS, min_size=1, max_size=2).map(lambda requests: asks(*requests)),
    st.sampled_from([asks(request) for request in OFTEN]),
    st.sampled_from([waits(10 * SECOND), waits(31 * SECOND), waits(2 * MINUTE), waits(20 * MINUTE), waits(2 * HOUR)]),
    st.sampled_from([enrols, beats, is_cleaned, works(succeeded=True), works(succeeded=False, times=5)]),
    st.one_of(
        st.builds(strikes, st.sampled_from(list(Blow)), st.integers(1, 3)),
        st.just(dies),
        st.sampled_from(
            [
                answers_badly(Fault(method="GET", path="*/machines/*", status=500, times=3)),
                answers_badly(Fault(method="GET", path="*/machines/*", status=502, body=PAGE, times=40)),
                answers_badly(Fault(method="GET", path="*/machines/*", status=409, headers={"Retry-After": "5"})),
                answers_badly(Fault(method="GET", path="*/machines/*", broken=Broken.GARBLE, times=2)),
                answers_badly(Fault(method="GET", broken=Broken.TRUNCATE, times=2)),
                answers_badly(Fault(method="GET", broken=Broken.DROP, times=5)),
            ]
        ),
    ),
    st.sampled_from(
        [
            fares(),
            fares(commission=CommissionFate.SCRIPT_FAILS),
            fares(commission=CommissionFate.TESTS_FAIL),
            fares(deploy=DeployFate.NO_DATASOURCE),
            fares(deploy=DeployFate.STORAGE_FAILS),
            fares(deploy=DeployFate.CLOUD_INIT_FAILS),
            fares(bmc_error="no route"),
        ]
    ),
    st.sampled_from(
        [
            *(human(op) for op in ("release", "abort", "lock", "unlock", "deploy", "rescue_mode", "commission")),
            *(human(op, user=ADMIN) for op in ("mark_fixed", "release", "exit_rescue_mode")),
            human("release", erase="true"),
            human_deletes,
            human_marks_broken,
            human_renames,
            human_takes,
        ]
    ),
)


# --- what must hold


LIVES = settings(deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
any_life = given(begins=st.integers(0, 5), script=st.lists(ACTS, min_size=4, max_size=14))
is_broken_at = partial(example, script=[human_marks_broken, goes_on, human("mark_fixed", user=ADMIN), goes_on])
"""A life that the generated ones rarely contain."""


@settings(LIVES, max_examples=5)
@any_life
@is_broken_at(begins=1)
@is_broken_at(begins=3)
async def test_the_invariants_hold_after_every_commit_and_no_node_waits_for_ever(
    pg_server: pg.Server, begins: int, script: list[Act]
) -> None:
    await lives(pg_server, begins, script)


@pytest.mark.full
@settings(LIVES, max_examples=25)
@any_life
async def test_the_invariants_hold_in_many_generated_lives(
    pg_server: pg.Server, begins: int, script: list[Act]
) -> None:
    await lives(pg_server, begins, script)


async def lives(pg_server: pg.Server, begins: int, script: list[Act]) -> None:
    async with life(pg_server, begins) as it:
        for act in script:
            await happens(it, act)
        await heals(it)
        await comes_to_rest(it)
        await happens(it, goes_on)
        await comes_to_rest(it)
        await held_after_every_commit(it.node)
        nothing_was_sent_that_must_not_be(it)


async def happens(it: Life, act: Act) -> None:
    try:
        await act(it)
    except pg.PostgresError as error:
        if error.sqlstate not in OF_A_DELETED_NODE:
            raise
        await it.site.settled()
    if it.site.is_held:
        await it.dies()
    await holds_now(it.node)


async def heals(it: Life) -> None:
    """From now on inject no faults."""
    it.region.faults.clear()
    it.wire.strike = lambda _: None
    it.region.default_nature = Nature()


async def comes_to_rest(it: Life) -> None:
    """Let time pass until the node waits for nothing but an operator or an agent."""
    for _ in range(PATIENCE // (10 * MINUTE)):
        await happens(it, waits(10 * MINUTE))
        row = await it.node.look()
        if rests(row):
            return
    raise AssertionError(f"waits for ever: {dict(row)}")


def rests(row: Any) -> bool:
    """Whether the node waits for nothing but an operator or an agent."""
    if row["live"] is None or row["paused"]:
        return row["status"] not in ("draining", "removing") or bool(row["paused"])
    if row["workflow_status"] in ("failed_manual_intervention", "pending"):
        return row["mode"] is None or row["workflow_status"] != "pending"
    return row["workflow_status"] == "running" and row["stage"] in {"wait_for_agent_enrollment", *BY_AGENTS}


def nothing_was_sent_that_must_not_be(it: Life) -> None:
    for sent in it.wire.sent:
        assert sent.owner in (None, "", ADMIN.username), f"{sent} was sent to a machine of another user"
        assert sent.op != "delete" or sent.status is not Status.DEPLOYED, f"{sent}: a system is deployed on the machine"
    twice = [comment for comment, times in installations(it).items() if times > 1]
    assert not twice, f"installed twice by one request of farrier: {twice}"


def installations(it: Life) -> Counter[str]:
    """The number of times that each deployment of farrier began, by its comment. A deployment that MAAS reverted
    because it could not switch the machine on, or that a user aborted, does not count: it may be requested again with
    the same comment."""
    begun: Counter[str] = Counter()
    last = ""
    for event in it.region.events.of(None):
        if event.type == START and "farrier" in event.description:
            last = event.description
            begun[last] += 1
        elif event.type == "User aborting deployment" or "reverting to ALLOCATED" in event.description:
            begun[last] -= 1
    return begun
