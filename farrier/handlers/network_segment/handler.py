"""One run of one segment. The handler is pure and returns no steps, because the database has already counted everything
that a decision needs.

A drain ends when the segment has had no allocated address for the drain period. A new deadline is stored by an
`Update`, so the segment enters the state `draining` only once. The next run takes place at the deadline, at the release
of an address, or after the usual period.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TypeAlias, assert_never

from typing_extensions import override

from farrier.handlers.network_segment.requests import after
from farrier.handlers.resource.kind import ResourceKind
from farrier.handlers.resource.requests import AnsweredResource, accept, settle
from farrier.model import duration
from farrier.model.kinds.resource import Answer, Pending
from farrier.model.loop.outcome import Deleted, DoNothing, Transition, Update, Wait
from farrier.model.loop.restores import Hold
from farrier.model.loop.runs import cause_of_intent
from farrier.model.network.segment import SPEC, Closing, Growing, NetworkSegment, SegmentState, SegmentWrite
from farrier.protocols import StateHandler

Decision: TypeAlias = (
    Transition[NetworkSegment, SegmentWrite]
    | Update[NetworkSegment, SegmentWrite]
    | Wait[SegmentWrite]
    | DoNothing[SegmentWrite]
    | Deleted[SegmentWrite]
)

DRAIN_PERIOD = timedelta(minutes=5)
# A deadline further away than this share of the period is not moved, so most runs of a delayed drain write nothing.
_NEAR = 0.5
# Largest number of owners in the reason of a wait. A refusal names more owners.
_NAMED = 3


class SegmentHandler(StateHandler[NetworkSegment, NetworkSegment, SegmentWrite, object]):
    """Implements `protocols.StateHandler` for network segments."""

    def __init__(self, drain_period: timedelta = DRAIN_PERIOD) -> None:
        self._drain_period = drain_period

    @override
    def handle(self, resource: NetworkSegment, now: datetime) -> Decision:
        """Decide one run. Pure: the same snapshot and time give the same decision."""
        match resource.state:
            case SegmentState.PROVISIONING:
                # Intents wait for the next run, which follows at once.
                return Transition(
                    to=resource.at(SegmentState.READY), reason="the segment may be used", cause="provisioned"
                )
            case SegmentState.READY:
                return self._ready(resource, now)
            case SegmentState.DRAINING:
                return self._draining(resource, now)
            case SegmentState.DB_DELETE:
                return Transition(
                    to=resource.at(SegmentState.GONE),
                    reason="the segment's prefixes, VLAN and VNI are free again",
                    cause="drained",
                    writes=_repeated(resource),
                )
            case SegmentState.GONE:
                return Deleted()
            case _ as never:
                assert_never(never)

    @override
    def observe(self, resource: NetworkSegment, now: datetime, hold: Hold) -> Decision:
        """Do nothing: a segment exists only in the database, so nothing outside can differ."""
        return DoNothing()

    def _ready(self, segment: NetworkSegment, now: datetime) -> Decision:
        settled = settle(segment, after)
        if settled.deletion is not None:
            return self._close(segment, settled, settled.deletion, now)
        to = settled.to
        if to != segment:
            return Update(
                to=to, reason="the segment was changed as requested", writes=(*settled.answers, *_growing(segment, to))
            )
        return DoNothing(writes=settled.answers)

    def _close(
        self, segment: NetworkSegment, settled: AnsweredResource[NetworkSegment], deletion: Pending, now: datetime
    ) -> Decision:
        until = now + self._drain_period if segment.allocated else self._drained_at(segment, now)
        return Transition(
            to=settled.to.at(SegmentState.DRAINING, drain_until=until, delete_asked_at=now, delete_request=deletion.id),
            reason="the deletion of the segment was requested",
            cause=cause_of_intent(deletion.id),
            writes=(*settled.answers, Closing(unused=segment.allocated == 0), *_growing(segment, settled.to)),
        )

    def _draining(self, segment: NetworkSegment, now: datetime) -> Decision:
        answers = _repeated(segment)
        if segment.allocated:
            return self._held_up(segment, now, answers)
        until = self._never_nearer(segment, self._drained_at(segment, segment.state_entered_at), now)
        if now >= until:
            return Transition(
                to=segment.at(SegmentState.DB_DELETE),
                reason="no address is allocated",
                cause="drained",
                writes=answers,
            )
        reason = f"the last address was released; the drain period ends at {until:%Y-%m-%d %H:%M:%S} UTC"
        if segment.drain_until != until:
            to = segment.but(drain_until=until)
            return Update(to=to, reason=reason, requeue_after=until - now, writes=answers)
        return Wait(reason=reason, requeue_after=until - now, writes=answers)

    def _held_up(self, segment: NetworkSegment, now: datetime, answers: tuple[SegmentWrite, ...]) -> Decision:
        after = duration.human(self._drain_period)
        reason = f"addresses are still allocated to {_some(segment)}; the drain ends {after} after the last release"
        if segment.drain_until is None or segment.drain_until - now <= self._drain_period * _NEAR:
            to = segment.but(drain_until=now + self._drain_period)
            return Update(to=to, reason=reason, quiet=True, writes=answers)
        return Wait(reason=reason, writes=answers)

    def _drained_at(self, segment: NetworkSegment, never_used: datetime) -> datetime:
        """Return the time at which a segment without allocated addresses may end: a drain period after the last
        release, or at `never_used` if no address was ever allocated."""
        if segment.last_released_at is None:
            return never_used
        return segment.last_released_at + self._drain_period

    def _never_nearer(self, segment: NetworkSegment, until: datetime, now: datetime) -> datetime:
        """Return the end of a drain. If the drain period was shortened, the end is at most one period from now.
        Otherwise, the end is never earlier than the recorded end."""
        if segment.drain_until is None:
            return until
        return max(until, min(segment.drain_until, now + self._drain_period))


def _repeated(segment: NetworkSegment) -> tuple[Answer, ...]:
    """Answer the intents of a segment that is being deleted. Such a segment accepts only a repeated deletion."""
    return tuple(accept(request, "the segment is already being deleted") for request in segment.requests)


def _growing(segment: NetworkSegment, to: NetworkSegment) -> tuple[Growing, ...]:
    assert segment.site is not None, "the table requires a site"
    return (Growing(segment.site),) if to.prefixes != segment.prefixes else ()


def _some(segment: NetworkSegment) -> str:
    """Name some owners of addresses, but not their number, so that the text changes rarely."""
    users = list(dict.fromkeys(segment.users))
    named = ", ".join(users[:_NAMED])
    return f"{named} and others" if len(users) > _NAMED else named


SEGMENT_KIND: ResourceKind[NetworkSegment] = ResourceKind(SPEC)
