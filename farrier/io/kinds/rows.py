"""The SQL and the codec of a kind. The storage of the loop uses them.

`ResourceRows` implements `Rows` for a `KindSpec`, so a kind with one table needs no SQL for the loop. A kind with more
tables defines a writer, which calls `farrier.write_resources` first, and names the sections of its additional writes.
Module `built_in` has the instances for the built-in kinds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import msgspec

from farrier.io import codec, statements
from farrier.model.kinds.resource import Answer, Resource
from farrier.model.kinds.spec import KindSpec
from farrier.model.loop.runs import Due, Finished

R_co = TypeVar("R_co", covariant=True)
R = TypeVar("R", bound=Resource)
S = TypeVar("S")
W = TypeVar("W")

_LOAD = statements.load("resource/load")
_INTERRUPTED = statements.load("resource/interrupted")
_WRITE = statements.load("loop/write")
# The placeholder for the kind's name in `_LOAD` and `_INTERRUPTED`. The name of a kind needs no quoting.
_PLACEHOLDER = "of_kind"

WRITER = "farrier.write_resources"
"""The SQL function that writes kinds with one table."""

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
        `$24`. `b.lost` are the runs that it must not write. It returns each other run for which it wrote nothing, with
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


class ResourceRows(Generic[R, W]):
    """Implements `Rows` for one kind. `columns` are the kind's columns that a run may write, in addition to its layers
    and `last_error`. `load` is SQL like `Rows.load`, based on `farrier.load_resources(kind, ids)`. `writer` is the
    qualified name of the SQL function that writes the sections. Its signature is (jsonb) RETURNS TABLE (run bigint,
    due_in interval). It does and returns what `Rows.write` does and returns. If the kind has additional writes,
    `section` returns for each such write its section, and the fields that the write has in this section."""

    def __init__(
        self,
        spec: KindSpec,
        type_: type[R],
        *,
        columns: Sequence[str] = (),
        load: str | None = None,
        writer: str = WRITER,
        section: Callable[[W], tuple[str, Mapping[str, Any]]] | None = None,
    ) -> None:
        self.kind = spec.name
        self.load = load or _of_kind(_LOAD, spec)
        self.write = _WRITE.replace("writer_of_kind", writer)
        cuts = any(action.interrupts for action in spec.actions.values())
        self.interrupted = _of_kind(_INTERRUPTED, spec) if cuts else None
        self._columns = ("state", *spec.columns_of_layers(), "last_error", *columns)
        self._what = spec.what
        self._own_section = section
        self.decode = codec.reader(type_, spec.what)

    def written(self, runs: Sequence[Finished[R, W]]) -> Sequence[Any]:
        """Return all sections in one JSON object. The section `runs` has the version of each run's snapshot, its
        `commit_id`, and `writes`, which is set if the run has writes but no new state."""
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

    def changes(self, runs: Sequence[Finished[R, W]]) -> Changes:
        """Return the states and writes of these runs in sections, each element with its `run`."""
        # Each element names its run, including the elements of `kind`, so that the commit can omit the elements of runs
        # that lost their shard. `run` comes last, so that no column or field of this name replaces it.
        changes: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
        for run in runs:
            changes["kind"].append({"run": run.id, "kind": self.kind})
            if run.due is Due.NEVER:
                changes["ended"].append({"run": run.id})
            if run.to is not None:
                values = {name: getattr(run.to, name) for name in self._columns}
                changes["resources"].append({**values, "commit_id": run.commit_id, "run": run.id})
            for write in run.writes:
                section, row = self._section(write)
                changes[section].append({**row, "run": run.id})
        return changes

    def _section(self, write: W) -> tuple[str, Mapping[str, Any]]:
        """Return the section of a write, and the write's fields in it. Raises TypeError for an unknown write."""
        if isinstance(write, Answer):
            return "answers", msgspec.structs.asdict(write)
        if self._own_section is not None:
            return self._own_section(write)
        raise TypeError(f"a run of {self._what} wrote a {type(write).__name__}, for which its writer has no section")


def placed(rows: Iterable[tuple[Any, ...]], *, width: int) -> tuple[Sequence[int], Sequence[Sequence[Any]]]:
    """Return for each row its place among the different rows, counted from 1, and the `width` columns of these. Many
    runs of a commit write equal rows, and each element of an argument costs time."""
    places: dict[tuple[Any, ...], int] = {}
    each = [places.setdefault(row, len(places) + 1) for row in rows]
    return each, list(zip(*places, strict=True)) or [()] * width


def by_type(sections: Mapping[type[Any], str]) -> Callable[[Any], tuple[str, Mapping[str, Any]]]:
    """Return the parameter `section` of ResourceRows for writes that are structs. `sections` maps the type of a write
    to its section."""
    return lambda write: (sections[type(write)], msgspec.structs.asdict(write))


def _of_kind(statement: str, spec: KindSpec) -> str:
    return statement.replace(f"'{_PLACEHOLDER}'", f"'{spec.name}'")
