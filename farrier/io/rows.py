"""The SQL and the codec of a kind, for the storage of the loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

from farrier.model.runs import Finished

R_co = TypeVar("R_co", covariant=True)
S = TypeVar("S")
W = TypeVar("W")

# Section → its elements, each with the id of its `run`.
Changes: TypeAlias = Mapping[str, Sequence[Mapping[str, Any]]]


class Rows(Protocol[R_co, S, W]):
    """The tables of one kind: its SQL and its codec. Uses no connection."""

    @property
    def kind(self) -> str:
        """The name of the kind in `farrier.shards`."""

    @property
    def load(self) -> str:
        """SQL: `$1` ids → rows (id, now, snapshot). The snapshot is decoded by `decode`. One SELECT without a
        semicolon, because it becomes part of a larger statement."""

    @property
    def writer(self) -> str:
        """The kind's SQL function that writes the result of `changes`, by its qualified name: (jsonb) RETURNS TABLE
        (run bigint, due_in interval). It returns the runs for which it wrote nothing, and how soon each of these runs
        must be decided again. It writes nothing for a run if the version has changed or the writes are no longer valid.
        It increments the version of each resource that it changes."""

    @property
    def interrupted(self) -> str | None:
        """SQL: `$1` ids → (id) of the resources with a pending intent that interrupts a reading step; None if no action
        of the kind interrupts."""

    def decode(self, snapshot: bytes | str) -> R_co:
        """Decode one snapshot. Raises `UndecodableState`."""

    def changes(self, runs: Sequence[Finished[S, W]]) -> Changes:
        """The states and writes of these runs, by sections that the kind defines; each element names its `run`. The
        writer receives them with the section `runs`: the version of the snapshot of each run, and `writes`: whether the
        run has writes but no new state. Raises the errors of encoders for a value of the wrong type."""
