"""Publishes the metrics and log events of runs after their commit. If a run was not committed, only its failure is
published. A run that was deferred has not failed; it is only counted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Generic

import structlog

from farrier.controller.runner import Run
from farrier.model.loop.runs import CommitResult, CommitVerdict, Failure, Move
from farrier.protocols import Kind, MetricsSink
from farrier.protocols.loop import R, S

_log = structlog.stdlib.get_logger(__name__)


def _has_effects(run: Run[Any, Any, Any]) -> bool:
    """Return whether the run has more to publish than its count and duration."""
    finished = run.finished
    return bool(finished.moves or finished.writes or finished.samples or run.error is not None or finished.limited)


class Publisher(Generic[R, S]):
    """Publishes the runs of one kind."""

    def __init__(self, kind: Kind[R, S], *, sink: MetricsSink) -> None:
        self._kind = kind
        self._sink = sink

    def publish(self, runs: Sequence[Run[R, S, Any]], results: Mapping[int, CommitResult]) -> None:
        """Publish runs and the results of their commits."""
        seconds: dict[str, list[float]] = defaultdict(list)
        log: structlog.stdlib.BoundLogger | None = None
        for run in runs:
            result = results[run.finished.id]
            if result.verdict is CommitVerdict.COMMITTED:
                seconds[run.finished.outcome].append(run.seconds)
                if _has_effects(run):
                    log = log or _log.bind()  # one time, because each use of the lazy logger assembles it again
                    self._publish_one(run, result, log)
            elif result.verdict is CommitVerdict.DEFERRED:
                self._sink.deferred(self._kind.name)
            else:
                self._publish_loss(run, result)
        if seconds:
            self._sink.ran(self._kind.name, seconds)

    def _publish_one(self, run: Run[R, S, Any], result: CommitResult, log: structlog.stdlib.BoundLogger) -> None:
        finished, kind, name = run.finished, self._kind.name, run.name
        if run.error is not None:
            failure = self._failure(run, run.error.error)
            self._sink.failed(kind, failure)
            log.warning(
                "run.failed",
                kind=kind,
                id=finished.id,
                name=name,
                state=failure.state,
                substate=failure.substate,
                label=run.error.error,
                error=run.error.reason,
            )
        asked = run.resource if finished.writes else None
        answers = () if asked is None else self._kind.answers(asked, finished.writes)
        for answer in answers:
            log.info(
                "intent.answered",
                kind=kind,
                id=finished.id,
                name=name,
                intent=answer.request,
                action=answer.action,
                verdict=answer.verdict,
                reason=answer.reason,
                requested_by=answer.by,
            )
        samples = finished.samples
        if run.resource is not None and finished.to is not None:
            samples = (*samples, *self._kind.samples(run.resource, finished.to))
        if samples:
            self._sink.sampled(kind, samples)
        for move in finished.moves:
            self._sink.moved(kind, name, move, _seconds_in_source(move, result), finished.cause)
            log.info(
                "state.moved",
                kind=kind,
                id=finished.id,
                name=name,
                layer=move.layer,
                source=move.source,
                target=move.target,
                reason=finished.reason,
                cause=finished.cause,
            )
        if finished.limited:
            self._sink.rerun_limited(kind)

    def _publish_loss(self, run: Run[R, S, Any], result: CommitResult) -> None:
        kind, id_, name, verdict = self._kind.name, run.finished.id, run.name, result.verdict.value
        self._sink.conflicted(kind, verdict)
        if result.verdict is CommitVerdict.CONFLICT:  # another transaction was faster; the resource runs again
            _log.info("commit.not_won", kind=kind, id=id_, name=name, verdict=verdict)
        elif result.error is None:
            _log.warning("commit.not_won", kind=kind, id=id_, name=name, verdict=verdict)
        else:
            level = _log.error if result.verdict is CommitVerdict.REFUSED else _log.warning
            level("commit.not_won", kind=kind, id=id_, name=name, verdict=verdict, error=str(result.error))
        if result.verdict is CommitVerdict.REFUSED and run.resource is not None and result.error is not None:
            self._sink.failed(kind, self._failure(run, result.error.label))

    def _failure(self, run: Run[R, S, Any], error: str) -> Failure:
        if run.resource is None:
            return Failure(error, None)
        return Failure(error, run.name, *self._kind.label(run.resource))


def _seconds_in_source(move: Move, result: CommitResult) -> float | None:
    """Return the time in the source state, from commit to commit; never negative, even if the clock was set back."""
    if move.since is None or result.at is None:
        return None
    return max(0.0, (result.at - move.since).total_seconds())
