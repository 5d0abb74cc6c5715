"""The queue for a region: a few requests run at a time, and further ones are refused while too many wait.

Only one request at a time tries a region that refused every request.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, contextmanager
from datetime import timedelta

import anyio
import pytest
from anyio import CancelScope
from anyio.abc import TaskGroup

from farrier.model.maas.reading import MaasError, MaasFailure
from farrier.services.http.client import Times
from farrier.services.maas import client as maas
from farrier.services.maas.regions import LONGEST_AGAIN, PLACE_KEPT, SLOTS, Regions
from farrier.services.maas.service import CONCURRENCY, MaasSettings
from farrier.sim.maas import Broken, Fault, Region, RegionTransport
from tests.support.clock import HandClock
from tests.support.maas import NEW, KeyOfMaas
from tests.support.observed import Observed

SITE = "north"
SETTINGS = MaasSettings(url="http://maas.test/MAAS", key="env:KEY")
REFUSED = MaasError(MaasFailure.AUTH, "the key is refused", operation="machine")


class Place:
    """The regions of a replica, with a clock that the test moves."""

    def __init__(self, found: Regions, region: Region, clock: HandClock, observed: Observed) -> None:
        self.found = found
        self.region = region
        self.clock = clock
        self.observed = observed

    async def slot(self, *, takes: timedelta = timedelta(0), error: MaasError | None = None) -> None:
        async with self.found.slot(SITE, object()):
            self.clock.advance(takes)
            if error is not None:
                raise error

    async def refused(self) -> MaasError:
        with pytest.raises(MaasError) as raised:
            async with self.found.slot(SITE, object()):
                pytest.fail("the turn had to be refused")
        return raised.value


@pytest.fixture
async def at() -> AsyncIterator[Place]:
    region, clock, observed = Region(), HandClock(), Observed("maas")
    times = Times(clock=clock)
    async with Regions.open(
        credentials=KeyOfMaas(), times=times, observer=observed, transport=RegionTransport(region)
    ) as found:
        await found.use({SITE: SETTINGS})
        yield Place(found, region, clock, observed)


@contextmanager
def failing(error: MaasError) -> Iterator[None]:
    with pytest.raises(MaasError) as raised:
        yield
    assert raised.value is error


async def test_a_finished_request_frees_its_slot(at: Place) -> None:
    for _ in range(2 * SLOTS):
        async with at.found.slot(SITE, object()) as client:
            assert client is at.found.client(SITE)


async def test_a_full_queue_refuses_requests_at_once_with_a_constant_text(at: Place) -> None:
    """A run that waits would occupy a slot of the controller that nodes without a region need."""
    for _ in range(50):
        await at.slot(takes=timedelta(seconds=60))
    async with AsyncExitStack() as stack:
        for _ in range(SLOTS):
            await stack.enter_async_context(at.found.slot(SITE, object()))
        refusals = [await at.refused() for _ in range(20)]
    assert {error.failure for error in refusals} == {MaasFailure.BUSY}
    assert len({error.detail for error in refusals}) == 1
    assert len({error.retry_after for error in refusals}) > 1, "they are not requeued for the same time"


async def test_a_refused_request_is_retried_after_the_queue_is_served(at: Place) -> None:
    for _ in range(100):
        await at.slot(takes=timedelta(seconds=6))
    async with AsyncExitStack() as stack:
        for _ in range(SLOTS):
            await stack.enter_async_context(at.found.slot(SITE, object()))
        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(_in_line, at)
            await anyio.wait_all_tasks_blocked()
            pauses = [(await at.refused()).retry_after for _ in range(40)]
            group.cancel_scope.cancel()
    seconds = [pause.total_seconds() for pause in pauses if pause is not None]
    assert all(6 <= each <= 60 for each in seconds)
    assert sum(seconds[-10:]) > 2 * sum(seconds[:10]), "each is requeued a little later than the previous one"


async def _fill(at: Place, group: TaskGroup, stack: AsyncExitStack) -> list[CancelScope]:
    """Occupy all slots, and let as many callers wait as the queue takes. Returns a scope for each of these callers."""
    for _ in range(100):
        await at.slot(takes=timedelta(seconds=6))
    for _ in range(SLOTS):
        await stack.enter_async_context(at.found.slot(SITE, object()))
    scopes = [CancelScope() for _ in range(5)]
    for scope in scopes:
        group.start_soon(_in_line_within, at, scope)
        await anyio.wait_all_tasks_blocked()
    return scopes


async def _in_line_within(at: Place, scope: CancelScope) -> None:
    with scope:
        await _in_line(at)


async def _is_let_in(at: Place, caller: object) -> bool:
    """Whether the caller may wait for a slot. It does not wait."""
    with anyio.move_on_after(0):
        try:
            async with at.found.slot(SITE, caller):
                pass
        except MaasError:
            return False
    return True


async def test_a_refused_caller_keeps_its_place_before_those_that_come_later(at: Place) -> None:
    async with anyio.create_task_group() as group, AsyncExitStack() as stack:
        waiting = await _fill(at, group, stack)
        assert not await _is_let_in(at, "gpu-1"), "the queue is full"
        waiting[0].cancel()
        await anyio.wait_all_tasks_blocked()
        assert not await _is_let_in(at, "gpu-2"), "the free place belongs to gpu-1"
        assert await _is_let_in(at, "gpu-1")
        group.cancel_scope.cancel()


async def test_a_caller_that_does_not_return_loses_its_place(at: Place) -> None:
    async with anyio.create_task_group() as group, AsyncExitStack() as stack:
        waiting = await _fill(at, group, stack)
        assert not await _is_let_in(at, "gpu-1")
        waiting[0].cancel()
        await anyio.wait_all_tasks_blocked()
        at.clock.advance(LONGEST_AGAIN + PLACE_KEPT)
        assert await _is_let_in(at, "gpu-2")
        group.cancel_scope.cancel()


async def _in_line(at: Place) -> None:
    async with at.found.slot(SITE, object()):
        pass


async def test_no_request_is_refused_without_a_queue_even_if_requests_take_long(at: Place) -> None:
    for _ in range(50):
        await at.slot(takes=timedelta(minutes=5))


async def _at_once(at: Place) -> int:
    """The number of turns that run at the same time when `2 * CONCURRENCY` callers request one each."""
    inside = 0

    async def stay() -> None:
        nonlocal inside
        async with at.found.slot(SITE, object()):
            inside += 1
            await anyio.sleep_forever()

    async with anyio.create_task_group() as group:
        for _ in range(2 * CONCURRENCY):
            group.start_soon(stay)
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()
    return inside


async def test_a_slot_is_reserved_for_the_observer_while_requests_are_slow(at: Place) -> None:
    await at.slot(takes=timedelta(milliseconds=20))
    assert await _at_once(at) == CONCURRENCY
    for _ in range(10):
        await at.slot(takes=timedelta(seconds=1))
    assert await _at_once(at) == SLOTS
    for _ in range(50):
        await at.slot(takes=timedelta(milliseconds=20))
    assert await _at_once(at) == CONCURRENCY


@pytest.mark.parametrize("failure", ["auth", "clock_skew", "tls", "unreachable"])
async def test_a_failure_of_the_whole_region_is_tried_again_by_one_request(at: Place, failure: str) -> None:
    error = MaasError(MaasFailure(failure), "so it is", operation="machine")
    with failing(error):
        await at.slot(error=error)
    for _ in range(100):
        refusal = await at.refused()
        assert (refusal.failure, refusal.detail, refusal.operation) == (error.failure, error.detail, "machine")
        assert refusal.retry_after is not None
        assert timedelta(0) < refusal.retry_after <= timedelta(seconds=10)
    at.clock.advance(timedelta(seconds=5))
    async with at.found.slot(SITE, object()):
        await at.refused()  # the others wait for the result of the trial
    await at.slot()


async def test_a_failure_at_one_site_refuses_no_request_at_another(at: Place) -> None:
    await at.found.use({SITE: SETTINGS, "south": SETTINGS})
    with failing(REFUSED):
        await at.slot(error=REFUSED)
    assert (await at.refused()).failure is MaasFailure.AUTH
    async with at.found.slot("south", object()) as client:
        assert (await client.whoami()).is_superuser


async def test_a_region_that_keeps_refusing_is_tried_once_a_minute(at: Place) -> None:
    tries = 0
    for _ in range(3600):
        at.clock.advance(timedelta(seconds=1))
        try:
            async with at.found.slot(SITE, object()):
                tries += 1
                raise REFUSED
        except MaasError:
            pass
    assert 58 <= tries <= 66


@pytest.mark.parametrize("failure", ["busy", "absent", "conflict", "upstream", "timeout"])
async def test_a_failure_of_one_request_refuses_no_other_request(at: Place, failure: str) -> None:
    error = MaasError(MaasFailure(failure), "so it is")
    with failing(error):
        await at.slot(error=error)
    await at.slot()


async def test_a_reload_of_the_sites_closes_the_breakers_of_their_regions(at: Place) -> None:
    with failing(REFUSED):
        await at.slot(error=REFUSED)
    await at.refused()
    await at.found.use({SITE: SETTINGS})
    await at.slot()


async def test_requests_that_fail_together_count_as_one_failure(at: Place) -> None:
    """All of the requests began before the first failure."""
    async with anyio.create_task_group() as group:
        for _ in range(SLOTS):
            group.start_soon(_fails_together, at)
    at.clock.advance(timedelta(seconds=5))
    await at.slot()


async def _fails_together(at: Place) -> None:
    try:
        async with at.found.slot(SITE, object()):
            await anyio.wait_all_tasks_blocked()
            raise REFUSED
    except MaasError:
        pass


async def test_concurrent_reads_of_bmc_addresses_share_one_request(at: Place) -> None:
    client = at.found.client(SITE)
    assert client is not None
    made = await client.create(NEW)
    at.observed.requests.clear()
    async with anyio.create_task_group() as group:
        for _ in range(100):
            group.start_soon(client.power_addresses)
    assert at.observed.operations == ["power_addresses"]
    assert set(await client.power_addresses()) == {made.system_id}
    assert set(await client.power_addresses((made.system_id,))) == {made.system_id}
    assert at.observed.operations == ["power_addresses"] * 2, "the addresses of single machines are not shared"
    at.clock.advance(maas.ADDRESSES_KEPT)
    await client.power_addresses()
    assert at.observed.operations == ["power_addresses"] * 3


async def test_a_shared_read_that_fails_is_repeated_by_the_next_caller(at: Place) -> None:
    client = at.found.client(SITE)
    assert client is not None
    at.region.faults.add(Fault(op="power_parameters", broken=Broken.GARBLE))
    with pytest.raises(MaasError):
        await client.power_addresses()
    assert await client.power_addresses() == {}


async def test_concurrent_reads_of_networks_share_one_request(at: Place) -> None:
    async with anyio.create_task_group() as nodes:
        for _ in range(3):
            nodes.start_soon(_reads_networks, at)
    assert at.observed.operations == ["subnets", "fabrics"]
    at.clock.advance(maas.NETWORKS_KEPT)
    await _reads_networks(at)
    assert sorted(at.observed.operations) == ["fabrics", "fabrics", "subnets", "subnets"]


async def _reads_networks(at: Place) -> None:
    async with at.found.slot(SITE, object()) as client:
        assert await client.subnets() and await client.vlans()
