"""Quotes a text of a service as one short, printable line without secrets in any spelling."""

from __future__ import annotations

import json
from collections.abc import Iterable
from urllib.parse import quote, quote_plus

from farrier.services.http.messages import HttpResponse

# Long enough for one or two sentences, the usual text of a service unless it lists many things.
_LONGEST_QUOTE = 300

# From this length on, a service may quote only a part of a secret, such as user data with a token. Passwords and keys
# are shorter.
_LONG = 128
# A token is several times as long, so most of it is removed wherever the quoted part begins.
_PIECE = 12


def said(answer: HttpResponse, secrets: Iterable[str]) -> str:
    """Return the text of the response as the end of "... returned HTTP 500". A page is never quoted."""
    if answer.is_page:
        return " with a web page"
    if not answer.body.strip():
        return " without a text"
    return f": {quoted(answer.body, secrets)}"


def quoted(body: bytes, secrets: Iterable[str]) -> str:
    """Return a text of a service as one short line without secrets. Each secret is removed in every spelling in which
    farrier sends it or the service may return it."""
    # Shorten the text only after the secrets are removed, because a secret that is cut in two would not be found.
    text = scrubbed(" ".join(body[: 64 * _LONGEST_QUOTE].decode(errors="replace").split()), secrets)
    text = "".join(one if one.isprintable() else "?" for one in text)
    return text if len(text) <= _LONGEST_QUOTE else f"{text[:_LONGEST_QUOTE]}…"


def scrubbed(text: str, secrets: Iterable[str]) -> str:
    """Return `text` without the secrets. Each secret is removed in every spelling in which farrier sends it or a
    service may return it."""
    spellings = {
        spelling
        for secret in secrets
        for spelling in (
            secret,
            quote(secret),
            quote(secret, safe=""),
            quote_plus(secret),
            json.dumps(secret)[1:-1],
            json.dumps(secret, ensure_ascii=False)[1:-1],
            repr(secret)[1:-1],
            " ".join(secret.split()),
        )
    }
    for spelling in sorted(filter(None, spellings), key=len, reverse=True):
        text = text.replace(spelling, "***")
    for long in (spelling for spelling in spellings if len(spelling) >= _LONG):
        text = _without_parts(text, long)
    return text


def _without_parts(text: str, secret: str) -> str:
    """Return `text` without the quoted parts of a long secret. One short piece may remain at either end."""
    pieces = {secret[at : at + _PIECE] for at in range(0, len(secret) - _PIECE + 1, _PIECE)}
    kept: list[str] = []
    end = 0
    for at in range(len(text)):
        if text[at : at + _PIECE] in pieces:
            kept.append("***" if at >= end else "")
            end = at + _PIECE
        elif at >= end:
            kept.append(text[at])
    return "".join(kept)
