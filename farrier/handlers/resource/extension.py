"""A kind that a package exports: its spec, its handler, and the services of its steps.

`farrier run` runs the kind; `farrier kind install` runs its SQL. The setting `controller.kinds` and the command name an
extension as `package.module:NAME`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import msgspec

from farrier.errors import ConfigError
from farrier.model.kinds.resource import Answer, Resource
from farrier.model.kinds.spec import RESERVED, KindSpec
from farrier.model.loop.outcome import Decision
from farrier.model.node import spec as node_spec
from farrier.protocols import CredentialStore, StateHandler

R = TypeVar("R", bound=Resource)
W = TypeVar("W")
V = TypeVar("V")

TAKEN = frozenset(word for layer in node_spec.SPEC.every_layer for word in (layer.label, layer.key))
"""Names that no other kind may have, because metrics and limits of nodes use them."""

Decided: TypeAlias = Decision[R, Answer, V]
"""The result of a `Handler` with snapshots `R` and services `V`."""


class Handler(StateHandler[R, R, Answer, V], Protocol[R, V]):
    """A `StateHandler` whose runs write only their resource and answers to intents. Most kinds need no more."""


class ServiceContext(msgspec.Struct, frozen=True):
    """The objects that farrier passes to the services of a kind: the store of credentials."""

    credentials: CredentialStore


@asynccontextmanager
async def no_services(_context: ServiceContext) -> AsyncIterator[Any]:
    """Empty services, for a kind whose steps need no services."""
    yield None


class Extension(msgspec.Struct, Generic[R, W, V], frozen=True, kw_only=True):
    """A kind to run. Raises ConfigError if its parts do not fit together.

    `snapshot` has a field for each column of the kind; `columns` are the fields that a run may write, in addition to
    `state` and `last_error`. Each process enters the context `services` before its loop begins, and leaves it after the
    loop ends. `sql` creates the kind's table; it runs only one time, without COMMIT or ROLLBACK.

    `load` is for a snapshot with more data than the row. `load` is SQL that takes IDs as `$1` and returns (id, now,
    snapshot), and may call `farrier.load_resources(kind, ids)`. `writer` and `section` are required if the handler
    returns writes other than `Answer`. `writer` is the SQL function that applies these writes, after it has called
    `farrier.write_resources`. `section` takes one such write, and returns the name of a section in the data that
    `writer` receives, and the write's fields in this section.

    The schema of the kind's table may have two functions: `KIND_detail(bigint) RETURNS jsonb` for more data in views of
    a resource, and `KIND_unseen(bigint[]) RETURNS void`, which gets the IDs of resources whose runs farrier discards
    because the database's clock was set back.
    """

    spec: KindSpec
    snapshot: type[R]
    handler: StateHandler[R, R, W, V]
    services: Callable[[ServiceContext], AbstractAsyncContextManager[V]] = no_services
    sql: str = ""
    columns: tuple[str, ...] = ()
    load: str | None = None
    writer: str | None = None
    section: Callable[[W], tuple[str, Mapping[str, Any]]] | None = None

    def __post_init__(self) -> None:
        if not issubclass(self.snapshot, Resource):
            raise ConfigError(f"kind {self.spec.name}: its snapshot {self.snapshot.__name__} is not a Resource")
        if self.spec.name in TAKEN:
            raise ConfigError(f"kind {self.spec.name}: its name must not be one of {', '.join(sorted(TAKEN))}")
        layers = self._columns_of_layers()
        fields = {field.encode_name for field in msgspec.structs.fields(self.snapshot)}
        if layers - fields:
            lacks = ", ".join(sorted(layers - fields))
            raise ConfigError(f"kind {self.spec.name}: its snapshot {self.snapshot.__name__} lacks the fields {lacks}")
        missing = set(self.columns) - fields
        if missing:
            raise ConfigError(
                f"kind {self.spec.name}: `columns` has {', '.join(sorted(missing))}, but its snapshot "
                f"{self.snapshot.__name__} has no such fields"
            )
        kept = (RESERVED | layers) & set(self.columns)
        if kept:
            raise ConfigError(
                f"kind {self.spec.name}: `columns` must not have {', '.join(sorted(kept))}: these columns are "
                "reserved, or always written (`state` and `last_error`)"
            )
        if (self.writer is None) != (self.section is None):
            raise ConfigError(f"kind {self.spec.name}: `writer` and `section` require each other")

    def needed_columns(self) -> frozenset[str]:
        """Return the columns that the kind's table must have: the columns that `create` fills, and the columns that
        runs write. If limits differ by model, `model` is also needed; without `load`, the required fields of the
        snapshot are also needed."""
        fields = msgspec.structs.fields(self.snapshot)
        required = (field.encode_name for field in fields if self.load is None and field.required)
        model = ("model",) if self.spec.by_model else ()
        return frozenset((*self.spec.columns_of_create(), *self._columns_of_layers(), *self.columns, *required, *model))

    def kept_fields(self) -> tuple[str, ...]:
        """Return the snapshot's fields that the commit of a run does not write; a run must not change these fields.
        With `load` or `writer`, the result is empty, because the snapshot may have data of other tables, and the writer
        may write this data."""
        if self.load is not None or self.writer is not None:
            return ()
        layers = self._columns_of_layers()
        free = {"state", "state_entered_at", "last_error", "requests", *layers, *self.columns}
        return tuple(field for field in self.snapshot.__struct_fields__ if field not in free)

    def _columns_of_layers(self) -> set[str]:
        return {name for layer in self.spec.columns_of_layers() for name in (layer, f"{layer}_entered_at")}
