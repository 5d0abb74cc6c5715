"""The SQL and the codec of a kind. The storage of the loop uses them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from farrier.io import codec, statements
from farrier.model.loop.runs import Finished

R_co = TypeVar("R_co", covariant=True)
S = TypeVar("S")
W = TypeVar("W")

_WRITE = statements.load("loop/write")

# Maps each section to its elements. Each element has the ID of its `run`.
Changes: TypeAlias = Mapping[str, Sequence[Mapping[str, Any]]]


class Rows(Protocol[R_co, S, W]):
    """The SQL and the codec for the tables of one kind. Uses no connection."""

    @property
    def kind(self) -> str:
        """The name of the kind in `farrier.shards`."""

    @property
    def load(self) -> str:
        """A SELECT that takes IDs as `$1` and returns rows (id, now, snapshot). `decode` decodes the snapshot. The
        SELECT has no semicolon, because it becomes part of a larger statement."""

    @property
    def write(self) -> str:
        """A SELECT that is the kind's part of a commit, with the arguments that `written` returns, beginning with
        `$22`. `b.lost` are the runs that it must not write. It returns each other run for which it wrote nothing, with
        the delay after which the resource of this run must run again. It writes nothing for a run if the version has
        changed or the writes are no longer valid. In each resource that it changes, it increments the version and
        stores the run's `commit_id`. The SELECT has no semicolon, because it becomes part of a larger statement."""

    @property
    def interrupted(self) -> str | None:
        """SQL that takes IDs as `$1`. Returns the IDs of the resources with a pending intent whose action interrupts a
        running step. None if no action of the kind interrupts steps."""

    def decode(self, snapshot: bytes | str) -> R_co:
        """Decode one snapshot. Raises `UndecodableState`."""

    def written(self, runs: Sequence[Finished[S, W]]) -> Sequence[Any]:
        """Return the arguments of `write` for runs that have read their resources. Raises the errors of encoders for a
        value of the wrong type."""

    def rehearsed(self) -> Sequence[Any]:
        """Return arguments with which `write` runs its statements, as far as possible, and writes nothing."""


class SectionRows(ABC, Generic[S, W]):
    """Implements `Rows.write` and `Rows.written` for a kind whose SQL function takes everything in one JSON object."""

    kind: str
    writer: str
    """The qualified name of the kind's SQL function that writes the result of `changes`. Its signature is (jsonb)
    RETURNS TABLE (run bigint, due_in interval). It does and returns what `Rows.write` does and returns."""

    @abstractmethod
    def changes(self, runs: Sequence[Finished[S, W]]) -> Changes:
        """Return the states and writes of these runs in sections that the kind defines. Each element names its `run`.
        The writer also receives the section `runs`. The section `runs` contains the version of each run's snapshot, its
        `commit_id`, and `writes`, which is set if the run has writes but no new state. Raises the errors of encoders
        for a value of the wrong type."""

    @property
    def write(self) -> str:
        return _WRITE.replace("writer_of_kind", self.writer)

    def written(self, runs: Sequence[Finished[S, W]]) -> Sequence[Any]:
        read = [
            {
                "run": run.id,
                "version": run.version,
                "writes": bool(run.writes) and run.to is None,
                "commit_id": run.commit_id,
            }
            for run in runs
        ]
        return (codec.encode({"runs": read, **self.changes(runs)} if runs else {}),)

    def rehearsed(self) -> Sequence[Any]:
        return (codec.encode({"runs": (), "kind": ({"kind": self.kind},)}),)
