"""The keys of a site's file, as the reference of settings lists them.

`generate_docs` calls this module. All texts are derived from `farrier.config.sites`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_type_hints

import msgspec

from farrier.config import tables
from farrier.config.description import spelled
from farrier.config.sites import DERIVED, Site


class SiteKey(msgspec.Struct, frozen=True):
    """A key of a site's file. `table` is the heading of the key's table, and `default` is the default; both are in the
    syntax of the file. `default` is empty if the key has no default. `required` is true if the file must set the
    key."""

    table: str
    key: str
    default: str
    description: str
    required: bool


def every() -> tuple[SiteKey, ...]:
    """Return every key of a site's file. If a table may occur in several places, only its first place is described."""
    return tuple(_keys(Site, "", {}))


def _keys(table: type[msgspec.Struct], heading: str, seen: dict[Any, str]) -> Iterator[SiteKey]:
    path = heading.strip("[]")
    hints = get_type_hints(table, include_extras=True)
    below: list[tuple[type[msgspec.Struct], str]] = []
    for field in msgspec.structs.fields(table):
        if (table, field.name) in DERIVED:
            continue
        type_, inner = tables.meant(hints[field.name])
        held = inner if tables.is_struct(inner) else type_
        if tables.is_struct(held):
            name = f"{path}.{field.name}" if path else field.name
            if held in seen:
                yield SiteKey(heading, field.name, "", f"The same keys as {seen[held]}.", required=False)
            else:
                seen[held] = f"[{name}]" if held is type_ else f"[[{name}]]"
                below.append((held, seen[held]))
            continue
        required = field.required
        default = "" if required or field.default is None else spelled(_default(field))
        yield SiteKey(heading, field.name, default, tables.description(hints[field.name]), required=required)
    for held, name in below:
        yield from _keys(held, name, seen)


def _default(field: msgspec.structs.FieldInfo) -> object:
    return field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
