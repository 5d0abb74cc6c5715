"""Describes the settings for operators: as a list, and as a file with every default and its reason.

`farrier config` and the generator of the documentation call this module. All texts are derived from `groups`, so the
description is always current.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from datetime import timedelta
from typing import get_type_hints

import msgspec

from farrier.config import tables
from farrier.config.groups import Config
from farrier.model import duration
from farrier.model.node.limits import Limits

_WIDTH = 100
_NO_TABLE = "{}"


class Setting(msgspec.Struct, frozen=True):
    """A setting. `default` is the default in the syntax of the settings file. `is_table` is true if the file sets the
    setting with separate tables."""

    section: str
    key: str
    default: str
    description: str
    environment: str
    is_table: bool = False


def settings() -> tuple[Setting, ...]:
    """Return every setting, in the order of the file."""
    return tuple(_settings())


def as_toml() -> str:
    """Return a file that sets every setting to its default, with the descriptions as comments."""
    lines: list[str] = []
    section = ""
    for setting in settings():
        if setting.section != section:
            section = setting.section
            lines += ["", f"[{section}]"] if lines else [f"[{section}]"]
        lines += (f"# {line}" for line in textwrap.wrap(setting.description, _WIDTH, break_on_hyphens=False))
        if setting.key:
            # This line is a comment, because a table of the same name further down would make the key an error.
            off = "# " if setting.is_table else ""
            lines.append(f"{off}{setting.key} = {setting.default}")
    return "\n".join(lines).rstrip() + "\n"


def _settings() -> Iterator[Setting]:
    for section in msgspec.structs.fields(Config):
        group = section.default
        if isinstance(group, Limits):  # the model defines the keys of this table
            hint = get_type_hints(Config, include_extras=True)[section.name]
            yield Setting(section.name, "", "", tables.description(hint), "")
            continue
        hints = get_type_hints(type(group), include_extras=True)
        for field in msgspec.structs.fields(group):
            default = spelled(getattr(group, field.name))
            _, inner = tables.meant(hints[field.name])
            yield Setting(
                section=section.name,
                key=field.name,
                default=default,
                description=tables.description(hints[field.name]),
                environment="" if default == _NO_TABLE else f"FARRIER_{section.name}_{field.name}".upper(),
                is_table=default == _NO_TABLE or tables.is_struct(inner),
            )


def spelled(value: object) -> str:
    """Return a value in the syntax of the settings file."""
    match value:
        case bool():
            return str(value).lower()
        case timedelta() if value % timedelta(seconds=1):
            return f"{value.total_seconds():g}"
        case timedelta():
            return f'"{duration.human(value)}"'
        case tuple():
            return f"[{', '.join(spelled(item) for item in value)}]"
        case str() if "\\" in value:
            return f"'{value}'"
        case str():
            return f'"{value}"'
        case dict():
            return _NO_TABLE
        case _:
            return str(value)
