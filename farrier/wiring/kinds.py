"""Loads the kinds that run besides nodes: the other built-in kinds, and the kinds that the settings name.

The daemon, `loops`, `farrier kind` and `farrier config check` call this module. All parts of a kind are checked before
anything starts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import msgspec

from farrier import config as settings
from farrier.config import kinds as naming
from farrier.errors import ConfigError
from farrier.handlers.ib_partition.handler import PARTITION_KIND, PartitionHandler
from farrier.handlers.network_segment.handler import SEGMENT_KIND, SegmentHandler
from farrier.handlers.resource.extension import Extension
from farrier.handlers.resource.kind import ResourceKind
from farrier.io.connections import refusals
from farrier.io.kinds import packages as installed
from farrier.io.kinds.built_in import PARTITION_ROWS, SEGMENT_ROWS
from farrier.io.kinds.packages import Installable
from farrier.io.kinds.rows import WRITER, ResourceRows, Rows
from farrier.model.kinds.built_in import BUILT_IN
from farrier.model.kinds.spec import KindSpec
from farrier.model.node import spec as node_spec
from farrier.protocols import Fabrics, Kind, StateHandler
from farrier.wiring.storage import Database, administrator

AnyExtension: TypeAlias = Extension[Any, Any, Any]
Extensions: TypeAlias = Mapping[str, AnyExtension]
"""Kinds of other packages, by the name `package.module:NAME` in the settings."""


class LoopParts(msgspec.Struct, frozen=True):
    """The parts of a loop that each kind provides."""

    kind: Kind[Any, Any]
    handler: StateHandler[Any, Any, Any, Any]
    rows: Rows[Any, Any, Any]
    services: object


def extensions(names: Iterable[str]) -> Extensions:
    """Import these kinds, which other packages define, and return them. Raises ConfigError."""
    found = {name: extension(name) for name in names}
    specs = [*BUILT_IN, *(each.spec for each in found.values())]
    layers = [layer for spec in (node_spec.SPEC, *specs) for layer in spec.every_layer]
    for what, values in (
        ("kinds have the name", [spec.name for spec in specs]),
        ("kinds have the table", [spec.relation for spec in specs]),
        ("layers have the metrics label", [layer.label for layer in layers]),
        ("layers have the limits key", [layer.key for layer in layers]),
    ):
        twice = [value for value, count in Counter(values).items() if count > 1]
        if twice:
            raise ConfigError(f"two {what} {twice[0]}, which must be unique")
    return found


def extension(name: str) -> AnyExtension:
    """Import the kind with the name `package.module:NAME`. Raises ConfigError."""
    found = naming.named(name)
    if not isinstance(found, Extension):
        raise ConfigError(f"{name} is not an Extension of farrier.library, but a {type(found).__name__}")
    return found


def specs_of(extensions: Extensions) -> tuple[KindSpec, ...]:
    """Return the specs of all kinds that run besides nodes."""
    return (*BUILT_IN, *(each.spec for each in extensions.values()))


def installable(extension: AnyExtension) -> Installable:
    """Return the parts of a kind that are installed in the database."""
    return Installable(spec=extension.spec, sql=extension.sql, columns=extension.needed_columns())


async def require_kinds(database: Database, extensions: Extensions) -> None:
    """Make sure that these kinds are installed in the database. An embedded database gets those that it lacks. Any
    other database belongs to an operator, so a missing kind raises ConfigError. A different kind always does, because
    this program may be older than the kind. Raises DatabaseUnreachable. May be repeated."""
    if database.embedded and extensions:
        async with administrator(database) as conn:
            for each in extensions.values():
                if not await installed.is_installed(conn, each.spec.name):
                    await installed.install(conn, installable(each))
    async with refusals.borrowed(database.pool) as conn:
        await installed.require(conn, [(name, each.spec) for name, each in extensions.items()])


def kind_loop(
    kind: ResourceKind[Any], handler: StateHandler[Any, Any, Any, Any], rows: Rows[Any, Any, Any], services: object
) -> LoopParts:
    """Return the loop of a kind other than nodes."""
    return LoopParts(kind, kind.guarded(handler), rows, services)


def built_in_loops(config: settings.Config, fabrics: Fabrics) -> list[LoopParts]:
    """Return the loops of the built-in kinds, except for nodes and regions."""
    return [
        kind_loop(SEGMENT_KIND, SegmentHandler(config.segments.drain_period), SEGMENT_ROWS, None),
        kind_loop(PARTITION_KIND, PartitionHandler(), PARTITION_ROWS, fabrics),
    ]


def loop_of(extension: AnyExtension, services: object) -> LoopParts:
    """Return the loop of a kind that another package defines."""
    rows: ResourceRows[Any, Any] = ResourceRows(
        extension.spec,
        extension.snapshot,
        columns=extension.columns,
        load=extension.load,
        writer=extension.writer or WRITER,
        section=extension.section,
    )
    return kind_loop(ResourceKind(extension.spec, kept=extension.kept_fields()), extension.handler, rows, services)
