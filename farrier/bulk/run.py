"""Submits an action for many resources of a kind. Follows each resource until its intent is answered or the resource
reaches the state that the user waits for. The user may limit how many resources are in flight at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Protocol

import anyio
import msgspec

from farrier.errors import RefusedByModel
from farrier.model.intents.requests import IntentRequest, IntentStatus
from farrier.model.views.intents import IntentView
from farrier.protocols import Queries

LOOK_EVERY_SECONDS = 0.2
"""No notification reports a change of a state to clients, so commands and pages poll."""
ALREADY = "already"
"""The status of a resource that already has the state for which the user waits, and that accepts no further intent."""
# The number of intents that one poll reads. If more intents are pending, several polls read them one after the other.
_LOOKED = 20
# The number of resources whose states one statement reads.
_READ = 1000


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """A resource for which an action is submitted. `refusal` is the reason why the intent would be rejected now.
    `delay` is the reason why the answer would come later. `is_told` is true if a controller gave this answer;
    otherwise, it is the answer of the table of actions."""

    id: int
    name: str
    state: str
    refusal: str = ""
    delay: str = ""
    is_told: bool = False

    def is_at(self, until: str | None) -> bool:
        """Return whether the action has nothing to do: the resource has the awaited state, and refuses the action."""
        return bool(self.refusal) and self.state == until


class BulkResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of the action for one resource. `status` is the status of the intent, or one of these: `refused` (the
    intent was not stored), `late` (the answer or the awaited state did not come in time), `failed` (the resource can no
    longer reach the awaited state), `not begun`, or `ALREADY`."""

    id: int
    name: str
    intent: int | None
    status: str
    reason: str | None
    state: str | None = None

    @property
    def is_well(self) -> bool:
        """Whether the action was accepted and, if the user waits for a state, the resource reached this state."""
        return self.status in (IntentStatus.ACCEPTED, IntentStatus.PENDING, ALREADY)


class Reached(msgspec.Struct, frozen=True):
    """The present state of a resource. `is_there` is true if this is the state that the user waits for. `failure` is
    the reason why the resource cannot reach the awaited state by itself."""

    state: str
    is_there: bool
    failure: str = ""


class Asks(Protocol):
    """Submits intents, as `protocols.Requests` does."""

    async def ask(self, request: IntentRequest) -> int:
        """Insert an intent and return its ID. Raises RefusedByModel."""


class Operations(msgspec.Struct, frozen=True, kw_only=True):
    """The database operations on the resources of one kind. `request` is the intent without resource and parameters.
    `params` returns the parameters for the resource with an ID. `reached` returns the present state of each resource
    with one of these IDs, and whether this is the awaited state."""

    requests: Asks
    queries: Queries
    request: IntentRequest
    params: Callable[[int], Mapping[str, Any]]
    reached: Callable[[Sequence[int]], Awaitable[Mapping[int, Reached]]]

    async def ask(self, target: Target) -> int:
        """Submit the intent for the ID of the target and not for its name, because another resource may get the name
        meanwhile. Raises RefusedByModel."""
        request = msgspec.structs.replace(self.request, resource=str(target.id), params=self.params(target.id))
        return await self.requests.ask(request)

    async def intent(self, intent: int) -> IntentView:
        """Return the intent with its answer."""
        return (await self.queries.intent(self.request.kind, intent)).rows[0]


class Following(msgspec.Struct, frozen=True, kw_only=True):
    """How resources are followed. At most `most` resources are followed at the same time; if `most` is None, all are.
    If `waits` is true, each resource is followed until its intent is answered and, if `until` is set, until the
    resource reaches this state, but for at most `patience`."""

    most: int | None
    waits: bool
    until: str | None
    patience: timedelta
    timeout: str
    """The limit as the user wrote it, with its unit."""


class Flight(msgspec.Struct, kw_only=True):
    """A resource that is followed after its intent was submitted. `reason` is the reason in the answer to the
    intent."""

    target: Target
    intent: int
    deadline: float
    accepted: bool = False
    reason: str | None = None
    state: str | None = None


class Bulk:
    """A run of the action for all targets. When a resource need not be followed further, its result is added to
    `results`, and `finished` is called."""

    def __init__(
        self, operations: Operations, targets: Sequence[Target], following: Following, finished: Callable[[], object]
    ) -> None:
        self._operations = operations
        self._waiting = deque(targets)
        self._following = following
        self._finished = finished
        self._flights: dict[int, Flight] = {}
        self._stopped = ""  # why no more intents are submitted
        self.results: list[BulkResult] = []

    @property
    def waiting(self) -> int:
        """The number of resources for which no intent was submitted yet."""
        return len(self._waiting)

    def stop(self, reason: str) -> None:
        """Submit no more intents. Resources whose intent was submitted are followed to the end."""
        self._stopped = self._stopped or reason

    async def run(self) -> None:
        """Submit the intents and follow all resources. If the number in flight is limited, no intent is submitted after
        a resource was late or failed."""
        while self._waiting or self._flights:
            while self._may_begin():
                await self._begin(self._waiting.popleft())
            if self._stopped:
                self._leave_out_the_rest()
            if self._flights and not await self._look():
                await anyio.sleep(LOOK_EVERY_SECONDS)

    def _may_begin(self) -> bool:
        room = self._following.most is None or len(self._flights) < self._following.most
        return bool(self._waiting) and room and not self._stopped

    async def _begin(self, target: Target) -> None:
        if target.is_at(self._following.until):
            self._end(target, ALREADY, None, state=target.state)
            return
        try:
            intent = await self._operations.ask(target)
        except RefusedByModel as refusal:
            if refusal.is_of_every_resource and not self.results and not self._flights:
                raise
            self._end(target, "refused", str(refusal))
            return
        deadline = anyio.current_time() + self._following.patience.total_seconds()
        flight = Flight(target=target, intent=intent, deadline=deadline)
        if self._following.waits:
            self._flights[target.id] = flight
        else:
            self._finish(flight, "pending", None)

    async def _look(self) -> bool:
        """Read answers and states. Returns whether a resource need not be followed further."""
        before = len(self.results)
        await self._look_for_answers()
        await self._look_for_states()
        for flight in [flight for flight in self._flights.values() if anyio.current_time() >= flight.deadline]:
            where = (
                f"is {flight.state or 'unknown'}, not {self._following.until}," if flight.accepted else "has no answer"
            )
            delay = f": {flight.target.delay}" if flight.target.delay and not flight.accepted else ""
            self._give_up(flight, "late", f"{where} after {self._following.timeout}{delay}")
        return len(self.results) > before

    async def _look_for_answers(self) -> None:
        for flight in [flight for flight in self._flights.values() if not flight.accepted][:_LOOKED]:
            found = await self._operations.intent(flight.intent)
            self._flights[flight.target.id] = self._flights.pop(flight.target.id)
            if found.status == IntentStatus.ACCEPTED and self._following.until is not None:
                flight.accepted, flight.reason = True, found.reason
            elif found.status == IntentStatus.REJECTED and await self._is_there(flight):
                self._finish(flight, ALREADY, None)
            elif found.answered_at is not None:
                self._finish(flight, found.status, found.reason)

    async def _is_there(self, flight: Flight) -> bool:
        """Return whether the resource reached the awaited state before its intent was answered, for example because
        another user submitted the same action."""
        if self._following.until is None:
            return False
        id_ = flight.target.id
        seen = (await self._operations.reached([id_]))[id_]
        flight.state = seen.state
        return seen.is_there

    async def _look_for_states(self) -> None:
        flights = [flight for flight in self._flights.values() if flight.accepted]
        for start in range(0, len(flights), _READ):
            chunk = flights[start : start + _READ]
            reached = await self._operations.reached([flight.target.id for flight in chunk])
            for flight in chunk:
                seen = reached[flight.target.id]
                flight.state = seen.state
                if seen.is_there:
                    self._finish(flight, IntentStatus.ACCEPTED, flight.reason)
                elif seen.failure:
                    self._give_up(flight, "failed", seen.failure)

    def _finish(self, flight: Flight, status: str, reason: str | None) -> None:
        self._flights.pop(flight.target.id, None)
        self._end(flight.target, status, reason, intent=flight.intent, state=flight.state)

    def _give_up(self, flight: Flight, status: str, reason: str) -> None:
        self._finish(flight, status, reason)
        if self._following.most is not None:
            self.stop("an earlier resource was late or failed")

    def _leave_out_the_rest(self) -> None:
        while self._waiting:
            self._end(self._waiting.popleft(), "not begun", self._stopped)

    def _end(
        self, target: Target, status: str, reason: str | None, *, intent: int | None = None, state: str | None = None
    ) -> None:
        self.results.append(
            BulkResult(id=target.id, name=target.name, intent=intent, status=status, reason=reason, state=state)
        )
        self._finished()
