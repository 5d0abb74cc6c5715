"""The format and the scopes of API tokens.

A token has 256 random bits, so a single SHA-256 is a safe hash for storage. Secret scanners find a token by its prefix.
"""

from __future__ import annotations

import hashlib
from enum import StrEnum

from farrier.model.machine import bootstrap

PREFIX = "fat_"


class Scope(StrEnum):
    """The scopes of API tokens: the operations that a client with the token may use. `admin` includes all scopes; every
    other scope includes only itself."""

    READ = "read"
    INTENT = "intent"
    REGISTER = "register"
    CONDITIONS = "conditions"
    ADMIN = "admin"


def token(secret: str) -> str:
    """Return a token made from 64 random hexadecimal digits."""
    return bootstrap.checked(PREFIX, secret)


def digest(given: str) -> str:
    """Return the hash of a token. The file of tokens stores this hash."""
    return hashlib.sha256(given.encode()).hexdigest()
