"""A kind as a package exports it: its spec, its handler, and the services of its steps.

`farrier run` runs the kind; `farrier kind install` runs its SQL. The setting `controller.kinds` and the command name an
extension as `package.module:NAME`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import msgspec

from farrier.errors import ConfigError
from farrier.model import node_spec
from farrier.model.kinds import KindSpec
from farrier.model.outcome import Decision
from farrier.model.resource import Answer, Resource
from farrier.protocols import CredentialStore, StateHandler

R = TypeVar("R", bound=Resource)
W = TypeVar("W")
V = TypeVar("V")

TAKEN = frozenset(word for layer in node_spec.SPEC.every_layer for word in (layer.label, layer.key))
"""Names that no other kind may have, because metrics and limits of nodes use them."""
KEPT = frozenset((*Resource.__struct_fields__, "ended_at", "run"))
"""Names that must not be in `columns`, because the database or the elements of a commit use them."""

Decided: TypeAlias = Decision[R, Answer, V]
"""The result of a `Handler` with snapshots `R` and services `V`."""


class Handler(StateHandler[R, R, Answer, V], Protocol[R, V]):
    """A `StateHandler` that writes only its resource and answers, as most kinds need."""


class Surroundings(msgspec.Struct, frozen=True):
    """What farrier provides for the services of a kind: the store of credentials."""

    credentials: CredentialStore


@asynccontextmanager
async def no_services(_surroundings: Surroundings) -> AsyncIterator[Any]:
    """The services of a kind whose steps need none."""
    yield None


class Extension(msgspec.Struct, Generic[R, W, V], frozen=True, kw_only=True):
    """A kind to run. Raises ConfigError if its parts do not fit together.

    `snapshot` has the kind's own columns as fields; `columns` are the fields that a run may write, besides `state` and
    `last_error`. The context `services` is entered once per process, before the loop begins, and left after the loop
    ends. `sql` creates the kind's table, once.

    `load` is for a snapshot with more data than the row: SQL that takes IDs as `$1` and returns (id, now, snapshot); it
    may call `farrier.load_resources(kind, ids)`. `writer` and `section` are for writes besides `Answer`. `writer` is
    the SQL function that applies them, after it has called `farrier.write_resources`. `section` returns, for each such
    write, the name of its section and its fields there.
    """

    spec: KindSpec
    snapshot: type[R]
    handler: StateHandler[R, R, W, V]
    services: Callable[[Surroundings], AbstractAsyncContextManager[V]] = no_services
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
        kept = (KEPT | layers) & set(self.columns)
        if kept:
            raise ConfigError(
                f"kind {self.spec.name}: `columns` must not have {', '.join(sorted(kept))}: these columns are "
                "reserved, or always written (`state` and `last_error`)"
            )
        if (self.writer is None) != (self.section is None):
            raise ConfigError(f"kind {self.spec.name}: `writer` and `section` require each other")

    def needed_columns(self) -> frozenset[str]:
        """The columns that the kind's table must have: the columns that `create` fills or runs write, and `model` if
        limits differ by model; without `load`, also the required fields of the snapshot."""
        fields = msgspec.structs.fields(self.snapshot)
        required = (field.encode_name for field in fields if self.load is None and field.required)
        model = ("model",) if self.spec.by_model else ()
        return frozenset((*self.spec.columns_of_create(), *self._columns_of_layers(), *self.columns, *required, *model))

    def _columns_of_layers(self) -> set[str]:
        return {name for layer in self.spec.columns_of_layers() for name in (layer, f"{layer}_entered_at")}
