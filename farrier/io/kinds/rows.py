"""The SQL and the codec of a kind. The storage of the loop uses them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

from farrier.model.loop.runs import Finished

R_co = TypeVar("R_co", covariant=True)
S = TypeVar("S")
W = TypeVar("W")

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
    def writer(self) -> str:
        """The qualified name of the kind's SQL function that writes the result of `changes`. Its signature is (jsonb)
        RETURNS TABLE (run bigint, due_in interval). The function returns each run for which it wrote nothing, with the
        delay after which the resource of this run must run again. The function writes nothing for a run if the version
        has changed or the writes are no longer valid. In each resource that it changes, the function increments the
        version and stores the run's `commit_id`."""

    @property
    def interrupted(self) -> str | None:
        """SQL that takes IDs as `$1`. Returns the IDs of the resources with a pending intent whose action interrupts a
        running step. None if no action of the kind interrupts steps."""

    def decode(self, snapshot: bytes | str) -> R_co:
        """Decode one snapshot. Raises `UndecodableState`."""

    def changes(self, runs: Sequence[Finished[S, W]]) -> Changes:
        """Return the states and writes of these runs in sections that the kind defines. Each element names its `run`.
        The writer also receives the section `runs`. The section `runs` contains the version of each run's snapshot, its
        `commit_id`, and `writes`, which is set if the run has writes but no new state. Raises the errors of encoders
        for a value of the wrong type."""
