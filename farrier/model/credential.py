"""A user name and password for one call to a service, the schemes of references, and a check of Vault paths.

A `CredentialStore` creates a credential, and a service client uses the credential for one call. A credential must never
be written to the database, a log, a metric or an outcome, so `repr` masks the password.
"""

from __future__ import annotations

import re
from enum import StrEnum

import msgspec
from typing_extensions import override

# Excludes slashes, percent signs and spaces.
_NAME = re.compile(r"[A-Za-z0-9._~@:+=-]+")


class Scheme(StrEnum):
    """The source of a secret, named by the scheme of its reference."""

    FILE = "file"
    ENV = "env"
    SYSTEMD = "systemd"
    VAULT = "vault"


class Credential(msgspec.Struct, frozen=True, kw_only=True):
    """A resolved credential. `version` changes whenever the secret changes, and does not reveal the secret."""

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
    """Return whether every server and proxy reads `path` as the same path: names with single slashes between them,
    without `.`, `..` and encoded characters."""
    return all(name not in (".", "..") and _NAME.fullmatch(name) for name in path.split("/"))
