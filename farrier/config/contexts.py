"""Reads and writes the contexts of a user, which are named databases and APIs in a file in the user's home directory.

The daemon does not use contexts. The URLs in the file may contain passwords, so only the user may read the file.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from farrier.config.database import DatabaseConfig
from farrier.config.reading import nearest, toml
from farrier.errors import ConfigError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_DSN_SCHEMES = ("postgresql://", "postgres://")
_HEADER = "# The databases of farrier by name; written by `farrier context`.\n"


class Context(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A database or an API, and the settings file to use with it. Set one of `dsn`, `embedded` and `api`, or a `config`
    file that sets one of them. `token_file` contains the token for the API."""

    dsn: str = ""
    embedded: str = ""
    api: str = ""
    token_file: str = ""
    config: str = ""

    def __post_init__(self) -> None:
        if sum(map(bool, (self.dsn, self.embedded, self.api))) > 1:
            raise ValueError("set only one of dsn, embedded and api")
        if not (self.dsn or self.embedded or self.api or self.config):
            raise ValueError("set at least one of dsn, embedded, api and config")
        is_reference = DatabaseConfig(dsn=self.dsn).refers
        if self.dsn and not is_reference and not self.dsn.startswith(_DSN_SCHEMES):
            # The error text does not quote the DSN, because it may contain a password.
            raise ValueError("dsn must be a URL such as postgresql://user@host/database, or a reference: file:PATH")
        if self.api and not self.api.startswith(("http://", "https://")):
            raise ValueError(f"api must be a URL such as https://farrier.example, not {self.api!r}")

    @property
    def flags(self) -> Mapping[str, object]:
        """The settings of the context, in the form in which options set them."""
        return {
            "database.dsn": self.dsn or None,
            "database.embedded": self.embedded or None,
            "client.api": self.api or None,
            "client.token_file": self.token_file or None,
        }

    @property
    def file(self) -> Path | None:
        """The settings file of the context, if any."""
        return Path(self.config).expanduser() if self.config else None


class Contexts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of the contexts file. `current` is the context of commands that name no database."""

    current: str = ""
    contexts: Mapping[str, Context] = {}

    def named(self, name: str) -> Context:
        """Return the context with this name. Raises ConfigError."""
        if name not in self.contexts:
            ways = nearest(name, self.contexts) if self.contexts else "to add one, run farrier context add"
            raise ConfigError(f"no context is named {name!r} in {path()}; {ways}")
        return self.contexts[name]

    def chosen(self) -> Context | None:
        """Return the current context, if there is one. Raises ConfigError."""
        return self.named(self.current) if self.current else None

    def with_context(self, name: str, context: Context) -> Contexts:
        """Return these contexts with `context` added under this name. An existing context of this name is replaced.
        Raises ConfigError."""
        if not _NAME.fullmatch(name):
            raise ConfigError(
                f"a context cannot be named {name!r}; expected 1 to 63 letters, digits, dots, dashes and underscores"
            )
        return Contexts(self.current or name, {**self.contexts, name: context})

    def without(self, name: str) -> Contexts:
        """Return these contexts without the context of this name. Raises ConfigError."""
        self.named(name)
        left = {each: context for each, context in self.contexts.items() if each != name}
        return Contexts("" if self.current == name else self.current, left)


def path() -> Path:
    """Return the path of the user's file: farrier/contexts.toml in XDG_CONFIG_HOME or, without this variable, in
    ~/.config."""
    home = os.environ.get("XDG_CONFIG_HOME")
    return (Path(home) if home else Path.home() / ".config") / "farrier" / "contexts.toml"


def load() -> Contexts:
    """Return the contexts of the user. If there is no file, there are no contexts. Raises ConfigError."""
    try:
        text = path().read_text(encoding="utf-8")
    except FileNotFoundError:
        return Contexts()
    except (OSError, UnicodeDecodeError) as failure:
        raise ConfigError(f"cannot read the contexts of {path()}: {_reason(failure)}") from failure
    try:
        return msgspec.convert(toml(text), Contexts)
    except ValueError as failure:
        raise ConfigError(f"{path()}: {failure}") from failure


def save(contexts: Contexts) -> None:
    """Replace the content of the file. Raises ConfigError."""
    where = path()
    draft = where.with_suffix(".new")
    try:
        where.parent.mkdir(parents=True, exist_ok=True)
        draft.unlink(missing_ok=True)
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.writelines(_lines(contexts))
        draft.replace(where)
    except (OSError, UnicodeEncodeError) as failure:
        raise ConfigError(f"cannot write {where}: {_reason(failure)}") from failure


def _lines(contexts: Contexts) -> Iterator[str]:
    yield _HEADER
    if contexts.current:
        yield f"current = {_quoted(contexts.current)}\n"
    for name, context in contexts.contexts.items():
        yield f"\n[contexts.{_quoted(name)}]\n"
        for key, value in msgspec.structs.asdict(context).items():
            if value:
                yield f"{key} = {_quoted(value)}\n"


def _quoted(text: str) -> str:
    """Return a TOML string. TOML has the same escapes as JSON."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _reason(failure: OSError | UnicodeError) -> str:
    return failure.strerror or str(failure) if isinstance(failure, OSError) else "it is not UTF-8"
