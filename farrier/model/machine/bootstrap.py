"""The format of bootstrap tokens. Secret scanners find tokens by their prefix; the checksum detects typing errors."""

from __future__ import annotations

import hashlib

PREFIX = "fbt_"
_CHECKSUM = 8


def token(secret: str) -> str:
    """Return the bootstrap token for 64 random hexadecimal digits: prefix, digits, and a checksum of both. The result
    is the same as that of `farrier.bootstrap_token` in the database.
    """
    return checked(PREFIX, secret)


def checked(prefix: str, secret: str) -> str:
    """Return a token of any kind: its prefix, random digits, and a checksum of both."""
    text = prefix + secret
    return text + hashlib.sha256(text.encode()).hexdigest()[:_CHECKSUM]
