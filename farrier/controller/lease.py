"""The claims this process holds, and how long each may still be believed in.

Counted by the monotonic clock from before the claim or renewal was sent, so our idea of a lease ends before
the database's. Owned by one processor; never touches the database itself. A claim is known by id and token: a
step that is slow to die may outlive its claim, and the row's next claim, by us even, must neither start
beside it nor be confused with it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import timedelta

import anyio
import msgspec

from farrier.errors import LeaseLost
from farrier.protocols import Clock


class _Held(msgspec.Struct):
    """One claimed resource: the lease began at `since`; `scope` is the running step, if one runs."""

    token: int
    since: float
    scope: anyio.CancelScope | None = None
    limit: float = 0.0
    reads_only: bool = False
    interrupted: bool = False


class Leases:
    """Everything claimed and not yet given back."""

    def __init__(self, clock: Clock, *, lease: timedelta, start_margin: timedelta, cancel_after: timedelta) -> None:
        self._clock = clock
        self._spare = (lease - start_margin).total_seconds()
        self._cancel_after = cancel_after.total_seconds()
        self._held: dict[int, _Held] = {}
        self._stopping = False

    def __len__(self) -> int:
        return len(self._held)

    def take(self, ids: Iterable[int], token: int, sent_at: float) -> None:
        """The ids were claimed by a statement sent at `sent_at`."""
        for id_ in ids:
            before = self._held.get(id_)
            if before is None or before.scope is None:
                self._held[id_] = _Held(token, sent_at)

    def may_start(self, id_: int, token: int) -> bool:
        """True while enough of the lease is left for a run to begin, and no earlier run of ours is still
        dying."""
        held = self._find(id_, token)
        return held is not None and self._clock.monotonic() - held.since <= self._spare

    def drop(self, tokens: Iterable[tuple[int, int]]) -> None:
        """These (id, token) were given back, or are another's. Unknown ones are ignored."""
        for id_, token in tokens:
            if self._find(id_, token) is not None:
                del self._held[id_]

    def tokens(self) -> dict[int, int]:
        """All that is held: what to give back."""
        return {id_: held.token for id_, held in self._held.items()}

    def ageing(self, age: timedelta) -> dict[int, int]:
        """What to renew: leases that began at least `age` ago. A batch that was claimed a moment ago will mostly be
        given back before it needs to be."""
        latest = self._clock.monotonic() - age.total_seconds()
        return {id_: held.token for id_, held in self._held.items() if held.since <= latest}

    def enter(self, id_: int, token: int, scope: anyio.CancelScope, *, limit: timedelta, reads_only: bool) -> None:
        """A step of the claim runs in `scope`: it is cancelled after `limit`, or earlier when the lease is
        not renewed or the process stops."""
        held = self._held[id_]
        assert held.token == token, "a step starts only under the claim that is held"
        held.scope = scope
        held.reads_only = reads_only
        held.limit = self._clock.monotonic() + limit.total_seconds()
        self._set_deadline(held)
        if self._stopping:
            self._cut_short(held)

    def leave(self, id_: int, token: int) -> None:
        """The step of the claim ended; its lease goes on until the commit."""
        held = self._find(id_, token)
        if held is not None:
            held.scope = None

    def renewed(self, ids: Iterable[int], sent_at: float) -> None:
        """The database extended these leases by a statement sent at `sent_at`."""
        for id_ in ids:
            held = self._held.get(id_)
            if held is not None:
                held.since = max(held.since, sent_at)
                self._set_deadline(held)

    def lost(self, ids: Iterable[int], tokens: Mapping[int, int]) -> None:
        """Under these tokens the ids are not ours any more: cut off the steps of those that run one. They stay held
        until those are dead."""
        for id_ in ids:
            held = self._find(id_, tokens[id_])
            if held is not None and held.scope is not None:
                held.since = -math.inf
                held.scope.cancel()

    def expired(self, id_: int, token: int) -> bool:
        """True when a step that was cut off was so by its lease and not by its own limit: whichever came
        first. Not asked of the clock, because a timer may fire a little early by it."""
        held = self._find(id_, token)
        return held is None or held.since + self._cancel_after < held.limit

    def require(self, id_: int, token: int) -> None:
        """Raise `LeaseLost` where the claim is too old for its step to act: asked of the clock, because a process that
        was stopped acts before its timers do."""
        held = self._find(id_, token)
        if held is None or self._clock.monotonic() - held.since > self._cancel_after:
            raise LeaseLost(f"the lease of {id_} ended before its step acted; nothing was sent")

    def reading(self) -> list[int]:
        """Ids whose running step may be cut short."""
        return [id_ for id_, held in self._held.items() if held.scope is not None and held.reads_only]

    def interrupt(self, ids: Iterable[int]) -> None:
        """Cut the reading steps of `ids` short."""
        for id_ in ids:
            held = self._held.get(id_)
            if held is not None and held.reads_only:
                self._cut_short(held)

    def interrupted(self, id_: int, token: int) -> bool:
        """True when the step was cut short, by a request or because the process stops."""
        held = self._find(id_, token)
        return held is not None and held.interrupted

    def cancel_steps(self) -> None:
        """Cut every step short that runs or is still to begin, whatever it does: the process stops."""
        self._stopping = True
        for held in self._held.values():
            self._cut_short(held)

    def _find(self, id_: int, token: int) -> _Held | None:
        held = self._held.get(id_)
        return held if held is not None and held.token == token else None

    def _cut_short(self, held: _Held) -> None:
        if held.scope is not None:
            held.interrupted = True
            held.scope.cancel()

    def _set_deadline(self, held: _Held) -> None:
        if held.scope is None:
            return
        latest = min(held.limit, held.since + self._cancel_after)
        held.scope.deadline = anyio.current_time() + (latest - self._clock.monotonic())
