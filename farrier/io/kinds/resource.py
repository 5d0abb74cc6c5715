"""The storage of resources of any kind in PostgreSQL: the SQL that reads a snapshot, and the data that a commit writes.

Implements `rows.Rows` for a `KindSpec`, so a kind with one table needs no SQL for the loop. A kind with more tables
defines a writer, which calls `farrier.write_resources` first, and names the sections of its additional writes.
Module `built_in` has the instances for the built-in kinds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import msgspec
from typing_extensions import override

from farrier.io import codec, statements
from farrier.io.kinds.rows import Changes, SectionRows
from farrier.model.kinds.resource import Answer, Resource
from farrier.model.kinds.spec import KindSpec
from farrier.model.loop.runs import Due, Finished

R = TypeVar("R", bound=Resource)
W = TypeVar("W")

_LOAD = statements.load("resource/load")
_INTERRUPTED = statements.load("resource/interrupted")
# The placeholder for the kind's name in the statements above. The name of a kind needs no quoting.
_PLACEHOLDER = "of_kind"

WRITER = "farrier.write_resources"
"""The SQL function that writes kinds with one table."""


class ResourceRows(SectionRows[R, W], Generic[R, W]):
    """Implements `rows.Rows` for one kind. `columns` are the kind's columns that a run may write, in addition to its
    layers and `last_error`. `load` is SQL like `Rows.load`, based on `farrier.load_resources(kind, ids)`. If the kind
    has additional writes, `section` returns for each such write its section, and the fields that the write has in this
    section."""

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
        self.writer = writer
        cuts = any(action.interrupts for action in spec.actions.values())
        self.interrupted = _of_kind(_INTERRUPTED, spec) if cuts else None
        self._columns = ("state", *spec.columns_of_layers(), "last_error", *columns)
        self._what = spec.what
        self._own_section = section
        self.decode = codec.reader(type_, spec.what)

    @override
    def changes(self, runs: Sequence[Finished[R, W]]) -> Changes:
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
        """Return the section of a write, and the write's fields in this section. Raises TypeError for an unknown
        write."""
        if isinstance(write, Answer):
            return "answers", msgspec.structs.asdict(write)
        if self._own_section is not None:
            return self._own_section(write)
        raise TypeError(f"a run of {self._what} wrote a {type(write).__name__}, for which its writer has no section")


def by_type(sections: Mapping[type[Any], str]) -> Callable[[Any], tuple[str, Mapping[str, Any]]]:
    """Return the parameter `section` of ResourceRows for writes that are structs. `sections` maps the type of a write
    to its section."""
    return lambda write: (sections[type(write)], msgspec.structs.asdict(write))


def _of_kind(statement: str, spec: KindSpec) -> str:
    return statement.replace(f"'{_PLACEHOLDER}'", f"'{spec.name}'")
