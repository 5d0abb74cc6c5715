"""What the loop's storage needs of a kind: its SQL and its codec."""

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
    """One kind's tables: its SQL and its codec. Touches no connection itself."""

    @property
    def kind(self) -> str:
        """What it is called in `farrier.shards`."""

    @property
    def load(self) -> str:
        """SQL: `$1` ids → rows (id, now, snapshot). The snapshot is decoded by `decode`. One SELECT without a
        semicolon, because it becomes part of a larger one."""

    @property
    def writer(self) -> str:
        """The kind's SQL function that writes what `changes` makes, by its qualified name: (jsonb) RETURNS TABLE (run
        bigint, due_in interval). It answers the runs of which it wrote nothing, because their version has moved on or
        because what they write no longer fits, and how soon they are to be decided anew. It increments the version of
        each resource of which it writes anything."""

    @property
    def interrupted(self) -> str | None:
        """SQL: `$1` ids → (id) of those with a request that cuts reading steps short; None if there are
        none."""

    def decode(self, snapshot: bytes | str) -> R_co:
        """One snapshot. Raises `UndecodableState`."""

    def changes(self, runs: Sequence[Finished[S, W]]) -> Changes:
        """The states and writes of these runs, by sections of the kind's own; each element names its `run`. The writer
        gets them with the section `runs`: the version that each run was decided on, and whether it `writes` anything
        without a state. Raises what encoders raise for a value that does not belong where it stands."""
