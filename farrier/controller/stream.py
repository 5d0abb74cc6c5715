"""The claim loop of one lane: claim, hand over, wait.

Two of these run beside each other, one for woken rows and one for the periodic sweep, each with its own
passes, so neither waits for the other. A claim is bounded below by the due time up to which earlier claims
took everything, because index entries of rows already moved on stay until vacuum, which an open snapshot
anywhere holds up, and would be walked over by every claim. Now and then it scans everything, for what was
locked or committed late, and brings back what the database's clock left behind when it was set back.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any

import anyio
import structlog
from anyio.abc import TaskGroup

from farrier.controller.host import Core
from farrier.errors import DatabaseUnreachable
from farrier.model.schedule import Claim, Lane
from farrier.protocols import Signal

_log = structlog.stdlib.get_logger(__name__)

# How far below the floor a claim still looks. A row's due time is taken a moment before its commit makes it
# visible, so this must outlast a slow commit; what is later still waits for a scan of everything.
_BEHIND = timedelta(milliseconds=500)
# Scans of everything: no more often than this, and never for more than this share of the time.
_FULL_SCAN_EVERY = 1.0
_FULL_SCAN_SHARE = 0.05
# While there is work, look again soon: a fleet comes due evenly, and a woken row waits less behind many small claims
# than behind the few large ones of a long pause.
_STEADY = timedelta(milliseconds=50)
_CLAIM_TIMEOUT = 10.0
# No claim is to wait for it: on any day but one there is nothing to do.
_BRING_BACK_TIMEOUT = 1.0
# Beyond the longest delay that we know of: a replica with other settings may have given a longer one.
_FURTHER = timedelta(minutes=1)


class Stream:
    """Claims rows of one lane as long as there are passes free to work on them."""

    def __init__(self, core: Core[Any, Any, Any], lane: Lane, signal: Signal) -> None:
        self._core = core
        self._config = core.host.config
        self._sink = core.host.sink
        self._lane = lane
        self._signal = signal
        self._passes = anyio.CapacityLimiter(self._config.passes)
        self._floor: datetime | None = None
        self._scan_all_at = float("-inf")
        longest = max(self._config.lease, self._config.period * (1 + self._config.jitter))
        self._reach = 2 * longest + _FURTHER

    async def run(self, work: TaskGroup, one_pass: Callable[[Claim], Awaitable[None]], stop: anyio.Event) -> None:
        """Until `stop`. A claim under way when it is set is finished and handed over, so none is left to run
        out."""
        while not stop.is_set():
            pass_ = object()
            await self._passes.acquire_on_behalf_of(pass_)
            claim = None if stop.is_set() else await self._claim()
            if claim is None or not claim.rows:
                self._passes.release_on_behalf_of(pass_)
            else:
                work.start_soon(self._one_pass, one_pass, claim, pass_)
            if not stop.is_set() and (claim is None or not claim.full):
                working = claim is not None and bool(claim.rows)
                pause = min(_STEADY, self._config.poll_interval) if working else self._config.poll_interval
                self._sink.woken(await self._signal.wait(pause))

    async def _one_pass(self, one_pass: Callable[[Claim], Awaitable[None]], claim: Claim, pass_: object) -> None:
        try:
            await one_pass(claim)
        finally:
            self._passes.release_on_behalf_of(pass_)

    async def _claim(self) -> Claim | None:
        """One claim, shielded: its rows must be known to us even if we are being stopped."""
        everything = self._core.host.clock.monotonic() >= self._scan_all_at
        if everything:
            await self._bring_back()
        sent_at = self._core.host.clock.monotonic()
        floor = None if everything or self._floor is None else self._floor - _BEHIND
        try:
            with anyio.fail_after(_CLAIM_TIMEOUT, shield=True):
                claim = await self._core.io.claim(self._lane, self._config.batch, floor)
        except (DatabaseUnreachable, TimeoutError) as error:
            _log.warning("claim.failed", kind=self._core.kind, lane=self._lane.name.lower(), error=str(error))
            return None
        if everything:
            answered_at = self._core.host.clock.monotonic()
            self._scan_all_at = answered_at + max(_FULL_SCAN_EVERY, (answered_at - sent_at) / _FULL_SCAN_SHARE)
        self._floor = claim.floor
        self._core.leases.take((row.id for row in claim.rows), claim.token, sent_at)
        if claim.rows:
            waits = [row.waited.total_seconds() for row in claim.rows]
            self._sink.claimed(self._core.kind, self._lane.name.lower(), waits)
        return claim

    async def _bring_back(self) -> None:
        """What was given its due time before the database's clock was set back would wait for as long as that was. The
        claim that follows tells of a database that is away."""
        try:
            with anyio.fail_after(_BRING_BACK_TIMEOUT):
                astray = await self._core.io.bring_back(self._lane, self._config.batch, self._reach)
        except (DatabaseUnreachable, TimeoutError):
            return
        if astray:
            _log.warning("clock.set_back", kind=self._core.kind, lane=self._lane.name.lower(), rows=astray)
