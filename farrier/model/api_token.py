"""The format and the scopes of API tokens.

A token has 256 random bits, so a single SHA-256 is a safe hash for storage. The prefix lets secret scanners find a
token.
"""

from __future__ import annotations

import hashlib
from enum import StrEnum

from farrier.model import bootstrap

PREFIX = "fat_"


class Scope(StrEnum):
    """What the client of a token may do. `admin` includes all scopes; each other scope includes only itself."""

    READ = "read"
    INTENT = "intent"
    REGISTER = "register"
    ADMIN = "admin"


def token(secret: str) -> str:
    """A token from 64 random hexadecimal digits."""
    return bootstrap.checked(PREFIX, secret)


def digest(given: str) -> str:
    """The hash of a token, which the file of tokens stores."""
    return hashlib.sha256(given.encode()).hexdigest()
