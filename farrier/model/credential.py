"""A user name and password on their way from a store to a service, never further.

Made by a `CredentialStore`, used by a service for one call. Never put one into the database, a log, a metric
or an outcome; the representation masks the password so that an accident shows nothing.
"""

from __future__ import annotations

import msgspec
from typing_extensions import override


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
