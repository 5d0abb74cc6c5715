"""The settings as an operator reads them: a list, and a file with every default and its reason.

Called by `farrier config` and by the generator of the documentation. Derived from `groups` alone, so it
cannot be out of date.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, get_args, get_type_hints

import msgspec

from farrier.config.groups import Config
from farrier.model import duration

_WIDTH = 100
_NO_TABLE = "{}"


class Setting(msgspec.Struct, frozen=True):
    """One setting. `default` is spelled as in a file."""

    section: str
    key: str
    default: str
    description: str
    environment: str


def settings() -> tuple[Setting, ...]:
    """Every setting, in the order of the file."""
    return tuple(_settings())


def as_toml() -> str:
    """A file that sets everything to its default, with the descriptions as comments."""
    lines: list[str] = []
    section = ""
    for setting in settings():
        if setting.section != section:
            section = setting.section
            lines += ["", f"[{section}]"] if lines else [f"[{section}]"]
        lines += _comment(setting.description)
        if setting.key:
            # A table that stands here could not be added to further down.
            off = "# " if setting.default == _NO_TABLE else ""
            lines.append(f"{off}{setting.key} = {setting.default}")
    return "\n".join(lines).rstrip() + "\n"


def _comment(text: str) -> list[str]:
    return [f"# {line}" for line in textwrap.wrap(text, _WIDTH, break_on_hyphens=False)]


def _settings() -> Iterator[Setting]:
    for section in msgspec.structs.fields(Config):
        group = section.default
        if not isinstance(group, msgspec.Struct):  # the table whose keys the operator chooses
            hint = get_type_hints(Config, include_extras=True)[section.name]
            yield Setting(section.name, "", "", _description(hint), "")
            continue
        hints = get_type_hints(type(group), include_extras=True)
        for field in msgspec.structs.fields(group):
            default = _spell(getattr(group, field.name))
            yield Setting(
                section=section.name,
                key=field.name,
                default=default,
                description=_description(hints[field.name]),
                environment="" if default == _NO_TABLE else f"FARRIER_{section.name}_{field.name}".upper(),
            )


def _description(hint: Any) -> str:
    (meta,) = (extra for extra in get_args(hint)[1:] if isinstance(extra, msgspec.Meta))
    return meta.description or ""


def _spell(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case timedelta() if value % timedelta(seconds=1):
            return f"{value.total_seconds():g}"
        case timedelta():
            return f'"{duration.human(value)}"'
        case tuple():
            return f"[{', '.join(_spell(item) for item in value)}]"
        case str():
            return f'"{value}"'
        case dict():
            return _NO_TABLE
        case _:
            return str(value)
