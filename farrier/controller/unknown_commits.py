"""Commits whose replies were lost. Their resources are neither loaded nor run until the database says what happened."""

from __future__ import annotations

from typing import Generic

import structlog

from farrier.controller.agenda import Agenda, AgendaEntry, Phase
from farrier.controller.host import asked
from farrier.controller.locked import Ended
from farrier.controller.publish import Publisher
from farrier.controller.runner import Run
from farrier.controller.steps import Steps
from farrier.model.loop.runs import CommitResult, CommitVerdict
from farrier.protocols import StateIO
from farrier.protocols.loop import R, S, V, W

_log = structlog.stdlib.get_logger(__name__)

_QUERY_SECONDS = 10.0


class Unsettled(Generic[R, S, W, V]):
    """Runs whose commits may have happened."""

    def __init__(
        self,
        io: StateIO[R, S, W],
        agenda: Agenda[R],
        publisher: Publisher[R, S],
        steps: Steps[R, S, W, V],
        *,
        kind: str,
    ) -> None:
        self._io = io
        self._agenda = agenda
        self._publisher = publisher
        self._steps = steps
        self._kind = kind
        self._runs: list[Ended[R]] = []

    def add(self, entry: AgendaEntry[R], run: Run[R, S, W]) -> None:
        """Close the entry until its commit is settled."""
        self._agenda.unknown(entry)
        self._runs.append((entry, run))

    async def settle(self) -> bool:
        """Find out which commits happened, publish them, and load their resources again. Returns whether there were
        any."""
        self._forget()
        unknown = list(self._runs)
        if not unknown:
            return False
        # A resource that could not be read has no version, and its run wrote no state.
        runs = [run.finished for _, run in unknown if run.finished.version is not None]
        with asked(
            _QUERY_SECONDS,
            lambda error: _log.warning("settle.failed", kind=self._kind, rows=len(unknown), error=error),
        ):
            settled = await self._io.settle(runs)
            for entry, run in unknown:
                if run.finished.version is None:
                    self._agenda.requeue(entry)
                elif entry.id in settled:
                    if settled[entry.id].happened:
                        self._publisher.publish(
                            [run], {entry.id: CommitResult(CommitVerdict.COMMITTED, at=settled[entry.id].at)}
                        )
                        self._steps.ended(entry, run.recovers)
                    self._agenda.requeue(entry)
        # Forget settled runs now. Otherwise, if the reply to the resource's next commit is lost as well, the entry is
        # unknown again, and the old run would be published again.
        self._forget()
        return True

    def _forget(self) -> None:
        self._runs = [each for each in self._runs if each[0].phase is Phase.UNKNOWN]
