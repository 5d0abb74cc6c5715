"""Reads and extends the file of API tokens (`http.tokens_file`). The file has the name, hash, scopes and expiry of each
token, never the token.

The daemon reads the file at the start and again on SIGHUP. If there is any fault, the whole load fails, so that a
change never takes effect in part.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from farrier.config.reading import toml
from farrier.config.tables import Fault, Reader, place
from farrier.errors import ConfigError
from farrier.model.api_token import Scope

# The names that intents and history show for a client without a token, and for the client with the token in this
# setting.
ANONYMOUS = "anonymous"
BEARER_TOKEN = "http.bearer_token"
_RESERVED = frozenset({ANONYMOUS, BEARER_TOKEN})

# A file with a thousand tokens has 200 kB, so a larger file is not a tokens file.
_LARGEST = 1024 * 1024
_SCOPES = ", ".join(Scope)
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._@-]{0,61}[A-Za-z0-9])?")
_SHA256 = re.compile(r"[0-9a-f]{64}")


class ApiToken(msgspec.Struct, frozen=True, kw_only=True):
    """An API token without its secret."""

    name: Annotated[str, Meta(description="name of the client, as shown in intents and history")]
    sha256: Annotated[str, Meta(description="64 hexadecimal digits that farrier token create prints")]
    scopes: Annotated[tuple[str, ...], Meta(description=f"one or more of {_SCOPES}")]
    expires: datetime | None = None

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(
                f"name: expected up to 63 letters, digits and ._@-, the first and the last a letter or a digit; got "
                f"{self.name[:60]!r}"
            )
        if self.name in _RESERVED:
            raise ValueError(f"name: {self.name!r} is reserved; choose the name of the client")
        if not _SHA256.fullmatch(self.sha256):  # the value is not shown, because it may be the token
            raise ValueError("sha256: expected the 64 hexadecimal digits that farrier token create prints")
        if wrong := [scope for scope in self.scopes if scope not in tuple(Scope)]:
            raise ValueError(f"scopes: expected one or more of {_SCOPES}; got {wrong[0][:60]!r}")
        if not self.scopes:
            raise ValueError(f"scopes: expected one or more of {_SCOPES}; got none")
        if self.expires is not None and self.expires.tzinfo is None:
            raise ValueError("expires: expected a time with its offset, such as 2027-01-01T00:00:00Z")


class _TokenFile(msgspec.Struct, frozen=True, kw_only=True):
    tokens: Annotated[tuple[ApiToken, ...], Meta(description="[[tokens]] with name, sha256 and scopes")]


def load(path: str) -> tuple[ApiToken, ...]:
    """Return the tokens of a file; none if the path is empty. Raises ConfigError, which names the file and its faults
    on one line."""
    return _parsed(path, _text(path)) if path else ()


def add(path: Path, token: ApiToken) -> None:
    """Add a token to a file, which need not exist. If it raises ConfigError, the file is unchanged."""
    before = _text(str(path)) if path.exists() else ""
    separator = "" if not before else "\n" if before.endswith("\n") else "\n\n"
    _parsed(str(path), f"{before}{separator}{entry(token)}")
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(f"{separator}{entry(token)}")
    except OSError as failure:
        raise _refusal(str(path), f"cannot be written: {failure.strerror}") from failure


def _text(path: str) -> str:
    try:
        with Path(path).open("rb") as file:
            content = file.read(_LARGEST + 1)
        if len(content) > _LARGEST:
            raise _refusal(path, f"is too large; expected at most {_LARGEST} bytes")
        return content.decode("utf-8")
    except OSError as failure:
        raise _refusal(path, f"cannot be read: {failure.strerror}") from failure
    except ValueError as failure:  # no file can have this name; or the text is not UTF-8
        raise _refusal(path, f"cannot be read as UTF-8 text: {failure}") from failure


def _parsed(path: str, text: str) -> tuple[ApiToken, ...]:
    try:
        content = toml(text)
    except ValueError as failure:
        raise _refusal(path, f"is not valid TOML: {failure}") from failure
    reader = Reader()
    file = reader.struct(_TokenFile, content)
    faults = reader.faults or (list(_repeated(file.tokens)) if file is not None else [])
    if file is None or faults:
        raise _refusal(path, "; ".join(map(str, faults)))
    return file.tokens


def _repeated(tokens: tuple[ApiToken, ...]) -> Iterator[Fault]:
    if not tokens:
        yield Fault("", "it has no token; expected one table [[tokens]] or more")
    for field, values in (("name", [each.name for each in tokens]), ("sha256", [each.sha256 for each in tokens])):
        for value, times in Counter(values).items():
            if times > 1:
                numbers = ", ".join(str(at) for at, each in enumerate(values, start=1) if each == value)
                yield Fault(
                    place("tokens", field), f"tables {numbers} have the same value; each table needs a different value"
                )


def _refusal(path: str, fault: str) -> ConfigError:
    return ConfigError(f"the tokens file {path!r} (http.tokens_file): {fault}")


def entry(token: ApiToken) -> str:
    """Return the table of a token as text for the file."""
    scopes = ", ".join(f'"{scope}"' for scope in token.scopes)
    lines = ["[[tokens]]", f'name = "{token.name}"', f'sha256 = "{token.sha256}"', f"scopes = [{scopes}]"]
    if token.expires is not None:
        lines.append(f"expires = {token.expires.isoformat(timespec='seconds')}")
    return "\n".join(lines) + "\n"
