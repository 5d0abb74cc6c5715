"""One run of one region: decides what to read, and evaluates the result for the region and its machines.

The decision is pure. The read is a step that changes nothing, so it may be repeated after a crash. Its results are
committed together with the cursor. After failures, the pause before the next read grows.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TypeAlias

from typing_extensions import override

from farrier.config.sites import ObserveSite, Site
from farrier.handlers.maas_region.observe import LONGEST, Findings, look
from farrier.handlers.maas_region.readings import plain
from farrier.handlers.resource.kind import ResourceKind
from farrier.model.kinds.resource import Answer
from farrier.model.loop.outcome import Deleted, DoNothing, EndsBy, Step, Transition, Update, Wait
from farrier.model.loop.restores import Hold
from farrier.model.loop.runs import cause_of_intent
from farrier.model.maas.reading import MaasError
from farrier.model.maas.reading import MaasFailure as F
from farrier.model.maas.region import SPEC, MaasRegion, MissedEvents, NamedMachines, RegionState, RegionWrite
from farrier.model.machine.observation import DOUBTFUL
from farrier.protocols import Regions, StateHandler

# Another controller may have the site in its settings, so this controller only checks again soon.
NOT_HERE = timedelta(seconds=5)
# The only controller with a site in its settings may be down while its host is upgraded.
UNCONFIGURED_AFTER = timedelta(minutes=10)
# How often a controller records in `configured_at` that its settings have the site, also in the pause after a failure.
_NOTED_EVERY = timedelta(minutes=1)
# The read itself ends within `LONGEST`, and the work after the read takes far less than the rest.
DEADLINE = LONGEST + timedelta(seconds=15)
# Equal to `CONFIRMED_AFTER`. An unreadable machine costs one request a minute.
UNREADABLE_AGAIN = timedelta(minutes=1)
# Largest number of unreadable machines that a region records; the newest are kept.
MOST_UNTOLD = 200
_AT_ONCE = timedelta(0)
_SHORT = (timedelta(seconds=5), timedelta(minutes=1))
# Failures that only an operator can fix: frequent retries would only fill the region's log.
_FOR_A_PERSON = frozenset({F.AUTH, F.CLOCK_SKEW, F.TLS, F.FORBIDDEN, F.INVALID})
_LONG = (timedelta(seconds=30), timedelta(minutes=5))


Change: TypeAlias = Transition[MaasRegion, RegionWrite] | Update[MaasRegion, RegionWrite]
Outcome: TypeAlias = Change | Wait[RegionWrite] | DoNothing[RegionWrite]
Decision: TypeAlias = Outcome | Deleted[RegionWrite] | Step[MaasRegion, RegionWrite, Regions]


class RegionHandler(StateHandler[MaasRegion, MaasRegion, RegionWrite, Regions]):
    """Implements `protocols.StateHandler` for MAAS regions."""

    def __init__(self, sites: Mapping[str, Site] | None = None) -> None:
        self._sites = sites or {}

    def use_sites(self, sites: Mapping[str, Site]) -> None:
        """Use these sites from the next run on."""
        self._sites = sites

    @override
    def handle(self, resource: MaasRegion, now: datetime) -> Decision:
        """Decide one run. Pure: the same snapshot and time give the same decision."""
        if resource.state is RegionState.GONE:
            return Deleted()
        if resource.requests:
            return _answered(resource)
        site = self._sites.get(resource.site)
        if site is None or site.maas is None:
            return _not_here(resource, now)
        if site.maas.url != resource.url:
            # Controllers reload their settings at different times, so another controller may use another region.
            return Wait(
                reason=f"the region of site {resource.site} has another URL in this controller's settings",
                ends_by=EndsBy.PERSON,
                requeue_after=NOT_HERE,
            )
        if resource.next_try_at is not None and now < resource.next_try_at:
            return _left_alone(resource, resource.next_try_at - now, now)
        pace = site.observe
        events = resource.complete_at is None or now - resource.complete_at >= pace.events_every
        identify = resource.identified_at is None or now - resource.identified_at >= pace.sweep_every
        if not (events or identify or resource.due):
            assert resource.complete_at is not None, "without complete_at, events are due"
            return DoNothing(requeue_after=resource.complete_at + pace.events_every - now)

        async def act(regions: Regions) -> Outcome:
            client = regions.client(resource.site)
            if client is None:
                return _not_here(resource, now)
            found = await look(
                client, resource, now, events=events, identify=identify, most_lost_percent=pace.most_lost_percent
            )
            return settle(resource, found, now, pace)

        return Step(name="look", act=act, deadline=DEADLINE, reads_only=True)

    @override
    def observe(self, resource: MaasRegion, now: datetime, hold: Hold) -> Decision:
        """Read the region as always, because its runs only read."""
        return self.handle(resource, now)


def _answered(region: MaasRegion) -> Change:
    """Answer the intents. `delete` is the only action, and only an unconfigured region accepts it."""
    why = ""
    if region.users:
        why = (
            f"nodes have machines in this region: {', '.join(region.users)}; remove these nodes, or add the site "
            "to the settings again"
        )
    writes = tuple(Answer(request=each.id, accepted=not why, reason=why) for each in region.requests)
    if why:
        return Update(to=region, reason="intents were answered", requeue_after=_AT_ONCE, quiet=True, writes=writes)
    to = region.at(RegionState.GONE, last_error=None)
    return Transition(
        to=to,
        reason="the deletion of the region was requested",
        cause=cause_of_intent(region.requests[0].id),
        writes=writes,
    )


def _not_here(region: MaasRegion, now: datetime) -> Transition[MaasRegion, RegionWrite] | Wait[RegionWrite]:
    """Wait for a controller that has the site. If none has had it for a while, the region is unconfigured."""
    if region.state is RegionState.UNCONFIGURED or now - region.configured_at < UNCONFIGURED_AFTER:
        return Wait(
            reason=f"site {region.site} has no MAAS in this controller's settings",
            ends_by=EndsBy.PERSON,
            requeue_after=NOT_HERE,
        )
    # The error of the last read is no longer the problem, and no controller retries the read. But a doubt about the
    # region remains until a read ends it: without the doubt, workflows would send requests to the region.
    doubt = region.failure if region.failure in DOUBTFUL else None
    to = region.at(RegionState.UNCONFIGURED, next_try_at=None, last_error=None, failure=doubt, failures=0)
    reason = (
        f"the controllers that owned this region did not have site {region.site} in their settings: give all replicas "
        "the same site files, or delete the region"
    )
    return Transition(to=to, reason=reason, cause="timer")


def _left_alone(region: MaasRegion, until: timedelta, now: datetime) -> Outcome:
    if now - region.configured_at < _NOTED_EVERY:
        return Wait(
            reason=f"waits before the next read, because the last read failed: {region.last_error}",
            requeue_after=until,
        )
    to = region.but(configured_at=now)
    return Update(
        to=to, reason="the region's site is still in the settings", requeue_after=min(until, _NOTED_EVERY), quiet=True
    )


def settle(region: MaasRegion, found: Findings, now: datetime, pace: ObserveSite) -> Change:
    """Return the outcome of a read, whose results are all committed with the cursor, even if it failed in the end."""
    to = region.but(
        username=found.username or region.username,
        identified_at=now if found.username else region.identified_at,
        cursor=found.cursor,
        complete_at=now if found.complete else region.complete_at,
        unreadable=_unreadable(region, found, now),
        since=now if _is_another_user(region, found) else region.since,
        configured_at=now,
    )
    writes: tuple[RegionWrite, ...] = (
        *((MissedEvents(at=now),) if found.begun_anew or _is_another_user(region, found) else ()),
        *(NamedMachines(system_id=name, at=now, status_changed=moved) for name, moved in sorted(found.named.items())),
        *found.readings,
    )
    if found.failure is not None:
        return _failed(region, to, found.failure, now, writes)
    return _observed(region, to, found, now, pace, writes)


def _is_another_user(region: MaasRegion, found: Findings) -> bool:
    """Return whether the API key belongs to another user, so that who owns machines must be decided again."""
    return found.username is not None and region.username not in (None, found.username)


def _observed(
    region: MaasRegion,
    to: MaasRegion,
    found: Findings,
    now: datetime,
    pace: ObserveSite,
    writes: tuple[RegionWrite, ...],
) -> Change:
    left = len(region.due) - len(found.readings) - len(found.unreadable)
    to = to.at(
        RegionState.OBSERVING,
        # `swept_at` advances only if every due machine was read.
        swept_at=(region.turn_at if left <= 0 else None) or region.swept_at,
        last_error=_first_error(found) or (region.last_error if to.unreadable else None),
        failure=None,
        failures=0,
        next_try_at=None,
    )
    if region.state is not RegionState.OBSERVING:
        return Transition(to=to, reason="the region responds", cause="look", writes=writes)
    unread = region.more or left > 0 or bool(found.named) or found.begun_anew
    again = _AT_ONCE if unread or to.complete_at is None else to.complete_at + pace.events_every - now
    return Update(to=to, reason="the region is observed", requeue_after=again, writes=writes)


def _failed(
    region: MaasRegion, to: MaasRegion, error: MaasError, now: datetime, writes: tuple[RegionWrite, ...]
) -> Change:
    text = plain(f"{error.operation}: {error.failure}: {error.detail}")
    failures = region.failures + 1 if region.failure is error.failure else 1
    pause = back_off(error, failures)
    to = to.at(
        RegionState.FAILING,
        last_error=text,
        failure=error.failure,
        failures=failures,
        next_try_at=now + pause,
    )
    if region.state is not RegionState.FAILING:
        return Transition(to=to, reason=text, cause="look", writes=writes)
    return Update(to=to, reason=text, requeue_after=pause, writes=writes)


def back_off(error: MaasError, failures: int) -> timedelta:
    """Return the pause before the next read, after this number of consecutive failures of one class."""
    first, longest = _LONG if error.failure in _FOR_A_PERSON else _SHORT
    pause = min(longest, first * (1 << min(failures - 1, 10)))
    return max(pause, min(error.retry_after or _AT_ONCE, _LONG[1]))


def _unreadable(region: MaasRegion, found: Findings, now: datetime) -> Mapping[str, datetime]:
    """Return the machines that are skipped, with the time until which each is skipped."""
    kept = {name: again for name, again in region.unreadable.items() if again > now}
    kept |= dict.fromkeys(found.unreadable, now + UNREADABLE_AGAIN)
    return dict(list(kept.items())[-MOST_UNTOLD:])


def _first_error(found: Findings) -> str | None:
    """Return the error of the first unreadable machine; None if all machines were readable."""
    name, error = next(iter(found.unreadable.items()), (None, None))
    return None if error is None else plain(f"machine {name} cannot be read: {error.failure}: {error.detail}")


REGION_KIND: ResourceKind[MaasRegion] = ResourceKind(SPEC)
