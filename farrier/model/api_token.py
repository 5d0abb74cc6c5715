"""The format and the scopes of API tokens.

A token has 256 random bits, so one SHA-256 protects it as well as a slow hash protects a password, and its form lets
secret scanners find it.
"""

from __future__ import annotations

import hashlib
from enum import StrEnum

from farrier.model import bootstrap

PREFIX = "fat_"


class Scope(StrEnum):
    """What the client of a token may do. `admin` includes the others; the others do not include each other."""

    READ = "read"
    INTENT = "intent"
    REGISTER = "register"
    ADMIN = "admin"


def token(secret: str) -> str:
    """A token from 64 random hexadecimal digits."""
    return bootstrap.checked(PREFIX, secret)


def digest(given: str) -> str:
    """What the file has of a token."""
    return hashlib.sha256(given.encode()).hexdigest()
