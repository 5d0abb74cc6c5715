"""Bootstrap tokens that tests derive from a word."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from farrier.model.machine import bootstrap


def named(word: str) -> str:
    """The token of this word, always the same; a word that is a token already is returned as it is."""
    return word if word.startswith(bootstrap.PREFIX) else bootstrap.token(hashlib.sha256(word.encode()).hexdigest())


def in_details(details: Mapping[str, Any]) -> dict[str, Any]:
    """The details of a registration, with the token that their word means."""
    word = details.get("bootstrap_token")
    return dict(details) if word is None else {**details, "bootstrap_token": named(word)}
