"""The format of bootstrap tokens. The prefix lets secret scanners find tokens; the checksum detects mistyped tokens."""

from __future__ import annotations

import hashlib

PREFIX = "fbt_"
_CHECKSUM = 8


def token(secret: str) -> str:
    """A bootstrap token from 64 random hexadecimal digits: prefix, digits, and a checksum of both. Equal to
    `farrier.bootstrap_token` in the database.
    """
    return checked(PREFIX, secret)


def checked(prefix: str, secret: str) -> str:
    """A token of any kind: prefix, random digits, and a checksum of both."""
    text = prefix + secret
    return text + hashlib.sha256(text.encode()).hexdigest()[:_CHECKSUM]
