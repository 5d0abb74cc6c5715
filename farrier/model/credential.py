"""A user name and password on their way from a store to a service, never further; and what a path of Vault may be.

Made by a `CredentialStore`, used by a service for one call. Never put one into the database, a log, a metric
or an outcome; the representation masks the password so that an accident shows nothing.
"""

from __future__ import annotations

import re

import msgspec
from typing_extensions import override

# No slash, no percent sign, no blank.
_NAME = re.compile(r"[A-Za-z0-9._~@:+=-]+")


class Credential(msgspec.Struct, frozen=True, kw_only=True):
    """A resolved credential. `version` changes when the secret does and does not reveal it."""

    username: str
    password: str
    version: str

    @override
    def __repr__(self) -> str:
        return f"Credential(username={self.username!r}, password=***, version={self.version!r})"

    @override
    def __rich_repr__(self) -> list[tuple[str, str]]:
        return [("username", self.username), ("password", "***"), ("version", self.version)]


def is_plain_path(path: str) -> bool:
    """Whether no server and no proxy could take `path` for another one: names with single slashes between them, none
    of which means a directory, and nothing that is encoded."""
    return all(name not in (".", "..") and _NAME.fullmatch(name) for name in path.split("/"))
