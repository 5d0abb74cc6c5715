"""What a bootstrap token looks like: scanners find it, and a mistyped one is refused before it is looked for."""

from __future__ import annotations

import hashlib

PREFIX = "fbt_"
_CHECKSUM = 8


def token(secret: str) -> str:
    """The token of 64 hexadecimal digits that nobody can guess: prefix, digits, and a checksum of both. The same as
    `farrier.bootstrap_token` in the database."""
    text = PREFIX + secret
    return text + hashlib.sha256(text.encode()).hexdigest()[:_CHECKSUM]
