"""One read of a region: reads the user of the API key, the events, and the due machines. Changes nothing.

`Findings` collects results as they arrive, so an interrupted read keeps its results. If a list omits a machine, farrier
requests the machine by its ID. Only the response to this request can make the machine absent. If too many machines
vanish at once, none becomes absent. A machine whose response is invalid is skipped for a while.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime, timedelta
from functools import partial

import anyio

from farrier.handlers.maas_region import cursor as cursors
from farrier.handlers.maas_region.readings import absent, plain, seen
from farrier.model.maas.changes import LookUp
from farrier.model.maas.reading import Event, MaasError, MaasStatus
from farrier.model.maas.reading import MaasFailure as F
from farrier.model.maas.region import Cursor, DueMachine, MaasRegion, Reading
from farrier.protocols import MaasClient

# The region returns at most this many events in one response. Pages beyond `MOST_PAGES` wait for the next read, so that
# this read also reads machines.
PAGE = 1000
MOST_PAGES = 10
# A request for this many machines takes 0.9 s of one of the region's workers.
CHUNK = 50
# How many requests of one read run at the same time. The client of a region sends at most four requests at a time, so
# one remains for the handlers of nodes.
AT_ONCE = 3
# Largest number of machines that one read requests individually. Each request takes a third of a second, so this many
# requests take ten seconds, three at a time. Further machines wait for the next read, which first reads the events that
# nodes wait for.
MOST_ALONE = 90
# A single unreadable machine may be broken; this many unreadable machines are a failure of the region.
ENOUGH = 3
# This many lost machines are always accepted, because operators remove some.
FEW = 3
# Limit of a whole read. Each request has its own limit and is repeated.
LONGEST = timedelta(seconds=60)
STATUS_CHANGED = "Node changed status"
# Failures that would affect every request to the region. For any other failure, one machine in the request may be the
# cause.
OF_THE_REGION = frozenset({F.AUTH, F.CLOCK_SKEW, F.BUSY, F.UNREACHABLE, F.TLS})


class Findings:
    """The results of a read, as they arrive."""

    def __init__(self, cursor: Cursor) -> None:
        self.username: str | None = None
        self.cursor = cursor
        self.complete = False
        self.begun_anew = False
        self.named: dict[str, bool] = {}
        self.readings: list[Reading] = []
        self.unreadable: dict[str, MaasError] = {}
        self.failure: MaasError | None = None
        self.lost: set[str] = set()
        self.lost_too_many = False

    def note(self, news: Iterable[Event]) -> None:
        """Record new events."""
        for event in news:
            name = plain(event.node)
            self.named[name] = self.named.get(name, False) or event.type == STATUS_CHANGED


async def look(
    client: MaasClient, region: MaasRegion, now: datetime, *, events: bool, identify: bool, most_lost_percent: int = 5
) -> Findings:
    """Read the region. Never raises `MaasError`; the error that ended the read is stored in `failure`."""
    found = Findings(region.cursor)
    with anyio.move_on_after(LONGEST.total_seconds()) as limit:
        try:
            if identify:
                found.username = await _identified(client, region)
            if events:
                await _follow(client, found, now)
        except MaasError as error:
            found.failure = error
        if found.failure is None:
            most = max(FEW, region.present * most_lost_percent // 100) - region.lost
            await _read(client, _first(region.due), found, now, most if most_lost_percent < 100 else None)
            if most_lost_percent < 100:
                await _ask_for_others(client, region, found)
    if found.lost_too_many or limit.cancelled_caught:
        found.readings = [reading for reading in found.readings if reading.state is not MaasStatus.ABSENT]
    if limit.cancelled_caught and found.failure is None:
        detail = f"one read took longer than {LONGEST.total_seconds():.0f} s"
        found.failure = MaasError(F.TIMEOUT, detail, operation="look")
    return found


async def _identified(client: MaasClient, region: MaasRegion) -> str:
    """Return the user of the API key. If this user differs from the recorded user, it is accepted only if the recorded
    user owns no machine of a sample (`held`)."""
    name = plain((await client.whoami()).username)
    if region.username in (None, name):
        return name
    machines = await client.machines(LookUp.ID, region.held)
    theirs = sorted(machine.system_id for machine in machines if machine.owner == region.username)
    if theirs:
        detail = (
            f"the API key now belongs to {name!r}, but machines such as {theirs[0]} are owned by "
            f"{region.username!r}, the user of the earlier key; configure a key of {region.username!r}, or transfer "
            "the machines in MAAS"
        )
        raise MaasError(F.AUTH, detail, operation="whoami")
    return name


async def _follow(client: MaasClient, found: Findings, now: datetime) -> None:
    """Read the events since the last read, page by page. The gaps are read first, and known events between them are
    skipped. Reading ends after the newest event."""
    known = found.cursor.newest
    if known is None:
        await _begin(client, found)
        return
    found.cursor, after = cursors.start(found.cursor, now)
    there = known == 0
    for number in range(MOST_PAGES):
        page = await client.events(after=after, limit=PAGE)
        there = there or any(event.id == known for event in page)
        found.cursor, news = cursors.read(found.cursor, page, now)
        found.note(news)
        if len(page) < PAGE:
            found.complete = True
            break
        # Gaps may use only half of the pages, so that new events are read too.
        gaps = found.cursor if number < MOST_PAGES // 2 else Cursor(newest=known)
        after = cursors.onward(gaps, page[-1].id, known)
    if found.complete and not there:
        await _begin(client, found, unless=known)


async def _begin(client: MaasClient, found: Findings, *, unless: int | None = None) -> None:
    """Set the cursor to the newest event; with `unless`, only if the region has no event with this or a higher ID."""
    newest = max((event.id for event in await client.events(limit=1)), default=0)
    if unless is None or newest < unless:
        found.cursor = Cursor(newest=newest)
        found.complete = found.begun_anew = True


def _first(due: Sequence[DueMachine]) -> Sequence[DueMachine]:
    """Return the machines for which a workflow waits, and as many others as fit into the same requests. If no workflow
    waits, return all machines."""
    urgent = sum(one.urgent for one in due)
    return due[: -(-urgent // CHUNK) * CHUNK] if urgent else due


async def _read(
    client: MaasClient, due: Sequence[DueMachine], found: Findings, now: datetime, most_lost: int | None
) -> None:
    """Read the machines together, and then read individually each machine that the lists omit. If more than `most_lost`
    machines have vanished, or more machines have vanished than remain, no machine counts as absent: the URL may lead to
    another or a restored region."""
    alone: list[DueMachine] = []
    chunks = (due[start : start + CHUNK] for start in range(0, len(due), CHUNK))
    await _side_by_side((partial(_together, client, chunk, found, alone, now) for chunk in chunks), found)
    await _side_by_side((partial(_alone, client, one, found, now, most_lost) for one in alone[:MOST_ALONE]), found)


async def _side_by_side(work: Iterable[Callable[[], Awaitable[None]]], found: Findings) -> None:
    """Run these calls, at most `AT_ONCE` at the same time, until the read fails."""
    queue = iter(work)

    async def one_after_the_other() -> None:
        for one in queue:
            if found.failure is not None:
                return
            await one()

    async with anyio.create_task_group() as group:
        for _ in range(AT_ONCE):
            group.start_soon(one_after_the_other)


async def _together(
    client: MaasClient, chunk: Sequence[DueMachine], found: Findings, alone: list[DueMachine], now: datetime
) -> None:
    try:
        machines = await client.machines(LookUp.ID, [one.system_id for one in chunk])
    except MaasError as error:
        if error.failure in OF_THE_REGION:
            found.failure = error
        else:
            alone += chunk
        return
    by_id = {machine.system_id: machine for machine in machines}
    for one in chunk:
        machine = by_id.get(one.system_id)
        if machine is None:
            alone.append(one)
        else:
            found.readings.append(seen(one, machine, now))


async def _alone(client: MaasClient, one: DueMachine, found: Findings, now: datetime, most_lost: int | None) -> None:
    try:
        machine = await client.machine(one.system_id)
    except MaasError as error:
        if error.failure is F.ABSENT:
            _note_absent(one, found, now, most_lost)
            return
        if error.failure not in OF_THE_REGION:
            found.unreadable[one.system_id] = error
        if error.failure in OF_THE_REGION or sum(map(_may_be_the_region_s, found.unreadable.values())) >= ENOUGH:
            found.failure = error
        return
    found.readings.append(seen(one, machine, now))


async def _ask_for_others(client: MaasClient, region: MaasRegion, found: Findings) -> None:
    """If all machines of this read have vanished, look for the other known machines. If the region has none of the
    other machines either, the URL may lead to another region, and no machine counts as lost."""
    if not found.lost or found.failure is not None or _there(found):
        return
    others = set(region.known) - found.lost
    try:
        if len(others | found.lost) > FEW and not await client.machines(LookUp.ID, sorted(others)):
            _doubt(found)
    except MaasError as error:
        found.lost_too_many, found.failure = True, error


def _there(found: Findings) -> int:
    return sum(reading.state is not MaasStatus.ABSENT for reading in found.readings)


def _note_absent(one: DueMachine, found: Findings, now: datetime, most_lost: int | None) -> None:
    """Record that the machine is absent. If too many are lost, the read fails, and no loss is recorded."""
    if one.present:
        found.lost.add(one.system_id)
    found.readings.append(absent(one, now))
    if found.lost and most_lost is not None and len(found.lost) > min(most_lost, max(FEW, _there(found))):
        _doubt(found)


def _doubt(found: Findings) -> None:
    found.lost_too_many = True
    detail = (
        f"too many machines vanished from the region (for example, {min(found.lost)}), so farrier ignores the losses: "
        "check [maas] url. If the machines were really removed, remove their nodes, or raise [observe] "
        "most_lost_percent until farrier has accepted the losses"
    )
    found.failure = MaasError(F.ABSENT, detail, operation="machine")


def _may_be_the_region_s(error: MaasError) -> bool:
    """Return whether the region may have failed: INVALID and FORBIDDEN concern only the requested machine."""
    return error.failure not in (F.INVALID, F.FORBIDDEN)
