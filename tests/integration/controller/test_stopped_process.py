"""A process that was stopped (SIGSTOP) goes on where it was: a step without its lease changes nothing outside.

The clock of the process is moved while its timers stand still, as after SIGCONT.
"""

from __future__ import annotations

from datetime import timedelta

import anyio
from typing_extensions import override

from farrier.model.outcome import Outcome
from farrier.protocols.acting import require_lease
from tests.support.clock import HandClock
from tests.support.loop import BRISK, Bench, Shop
from tests.support.toy import Answer, Scripted, Shape

STOPPED_FOR = BRISK.lease + timedelta(seconds=1)


class Acting(Bench):
    """A step that reads, and then changes something outside, as every client does."""

    sent = 0

    @override
    async def act(self, services: object) -> Outcome[Shape, Answer]:
        outcome = await super().act(services)
        async with anyio.create_task_group() as requests:
            requests.start_soon(self._change)
        return outcome

    async def _change(self) -> None:
        require_lease()
        self.sent += 1


async def test_a_step_that_goes_on_after_its_lease_ended_sends_nothing(shop: Shop) -> None:
    await shop.register(1)
    bench, clock = Acting(), HandClock()
    async with shop.running(Scripted(default=bench.script), clock=clock) as (_, ledger):
        await bench.begun.wait()
        clock.advance(STOPPED_FOR)
        bench.let_go.set()
        await ledger.until(lambda: ledger.lost_leases == 1)
    assert bench.sent == 0
    assert (ledger.outcomes.total(), ledger.errors) == (0, [])


async def test_a_step_that_holds_its_lease_sends_what_it_decided(shop: Shop) -> None:
    await shop.register(1)
    bench = Acting()
    async with shop.running(Scripted(default=bench.script), clock=HandClock()) as (_, ledger):
        await bench.begun.wait()
        bench.let_go.set()
        await ledger.until(lambda: ledger.outcomes.total() >= 1)
    assert bench.sent == 1
