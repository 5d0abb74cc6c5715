"""Runs of actions on many nodes, which operators began on a page.

A run belongs to this process: it continues after the operator has closed the browser, but not after the daemon has
ended. Submitted intents stay valid in any case.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import datetime
from http import HTTPStatus

import msgspec
from starlette import requests as http
from starlette.exceptions import HTTPException

from farrier.bulk.run import Asks, Bulk, BulkResult, Following, Operations, Target
from farrier.errors import DatabaseUnreachable, RefusedByModel
from farrier.model.intents.requests import IntentRequest
from farrier.web.server.refusals import RefusedRequest

PATH = "/runs"
# Ended runs stay visible until this many newer runs exist. A run of a thousand nodes takes a few hundred kilobytes.
_KEPT = 50
# A run polls the database a few times a second, and the pages of one daemon share three connections.
_MOST_AT_A_TIME = 8
_STOPPED = "the run was stopped"


class BulkPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a run does: the action, its nodes, who began the run and when. `repeat` is the query of the page that begins
    the same run again; a repeated run submits no intent twice."""

    key: str
    action: str
    targets: Sequence[Target]
    following: Following
    begun_by: str
    begun_at: datetime
    repeat: str


class BulkRun:
    """A run and its progress. `end` is how the run ended; empty while it continues."""

    def __init__(self, plan: BulkPlan, operations: Operations) -> None:
        self.plan = plan
        self.operations = operations
        self.end = ""
        self._bulk = Bulk(operations, plan.targets, plan.following, finished=lambda: None)

    @property
    def total(self) -> int:
        return len(self.plan.targets)

    @property
    def done(self) -> int:
        """The number of nodes that need not be followed further."""
        return len(self._bulk.results)

    @property
    def waiting(self) -> int:
        return self._bulk.waiting

    @property
    def in_progress(self) -> int:
        return self.total - self.done - self.waiting

    @property
    def counts(self) -> list[tuple[str, int]]:
        """The number of nodes with each result, the most frequent result first."""
        return Counter(str(each.status) for each in self._bulk.results).most_common()

    @property
    def failed(self) -> list[BulkResult]:
        """The nodes whose action was not accepted, or which did not reach the awaited status."""
        return sorted((each for each in self._bulk.results if not each.is_well), key=lambda each: each.name)

    def stop(self) -> None:
        """Submit no more intents."""
        self._bulk.stop(_STOPPED)

    async def work(self) -> None:
        """Submit and follow all nodes. If the database cannot be reached, the run ends with this reason."""
        try:
            await self._bulk.run()
        except (DatabaseUnreachable, RefusedByModel) as error:
            self.end = f"interrupted: {error}"
        else:
            self.end = "ended"
        finally:
            self.end = self.end or "interrupted: the daemon was stopping"


class Permitted:
    """Submits intents as long as the client may: a run can last longer than the client's token."""

    def __init__(self, requests: Asks, permit: Callable[[], Awaitable[None]]) -> None:
        self._requests = requests
        self._permit = permit

    async def ask(self, request: IntentRequest) -> int:
        try:
            await self._permit()
        except HTTPException as refused:
            raise RefusedByModel(f"the client may no longer submit intents: {refused.detail}") from None
        return await self._requests.ask(request)


class Runs:
    """The runs of this process, the newest first."""

    def __init__(self) -> None:
        self._runs: OrderedDict[str, BulkRun] = OrderedDict()

    def __iter__(self) -> Iterator[BulkRun]:
        return iter(reversed(self._runs.values()))

    def of(self, key: str) -> BulkRun:
        """Return a run. Raises Refused if this process has no such run."""
        if key not in self._runs:
            raise RefusedRequest(
                HTTPStatus.NOT_FOUND,
                "this process has no such run: it ended long ago, or belongs to another replica or to a process that "
                "has ended; its intents stay valid",
            )
        return self._runs[key]

    def is_current(self, key: str) -> bool:
        """Return whether a run with this key continues."""
        return key in self._runs and not self._runs[key].end

    @property
    def current(self) -> list[BulkRun]:
        """The runs that continue."""
        return [run for run in self if not run.end]

    def begin(self, run: BulkRun) -> None:
        """Add a run. Raises Refused if too many runs continue."""
        if len(self.current) >= _MOST_AT_A_TIME:
            raise RefusedRequest(
                HTTPStatus.TOO_MANY_REQUESTS,
                f"{_MOST_AT_A_TIME} runs continue already; wait until one of them has ended, or stop one",
            )
        self._runs[run.plan.key] = run
        ended = [key for key, each in self._runs.items() if each.end]
        for key in ended[: max(len(self._runs) - _KEPT, 0)]:
            del self._runs[key]


def runs_of(request: http.Request) -> Runs:
    """Return the runs of this process."""
    runs: Runs = request.app.state.runs
    return runs
