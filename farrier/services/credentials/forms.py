"""Parses the text of a secret, and computes the short text that distinguishes its versions.

Files have white space or a byte order mark around a secret, because editors and tools add them: `trimmed` removes these
characters, and names them for a warning. In other sources, and within JSON, they are refused, because they can only be
a mistake and a BMC would count such a login as failed. Control characters are always refused. User name and password
are `{"username": …, "password": …}`, two lines in a file, or `user:password` in a variable; a token is one line, or
`{"token": …}`. No error text repeats the content.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from enum import Enum, auto
from typing import TypeVar

import msgspec
from typing_extensions import override

from farrier.errors import CredentialError
from farrier.model.credential import Scheme
from farrier.model.plural import counted

_T = TypeVar("_T")

# A token is sent in a header: visible ASCII, without blanks.
_TOKEN = re.compile(r"[!-~]+")


# Some editors begin a file with this character.
_BYTE_ORDER_MARK = "\ufeff"


class SecretFormat(Enum):
    """The format of a source. JSON is also allowed for every source."""

    FILE = auto()
    VARIABLE = auto()
    JSON = auto()


class SecretSource(msgspec.Struct, frozen=True, kw_only=True):
    """The text that was read for a reference. `number` is its version, if the store has versions."""

    text: str
    form: SecretFormat
    number: int | None = None
    removed: str = ""  # what was around the secret

    @override
    def __repr__(self) -> str:
        return f"Source(text=***, form={self.form}, number={self.number})"


class _Pair(msgspec.Struct, frozen=True):
    username: str
    password: str


class _Token(msgspec.Struct, frozen=True):
    token: str


def parts(reference: str) -> tuple[Scheme, str]:
    """Return the scheme and the place of a reference. Raises `CredentialError`, which does not repeat the text, because
    a user may have entered a secret instead of a reference."""
    scheme, separator, place = reference.partition(":")
    if not (scheme and separator and place):
        raise CredentialError("(not shown)", "is not a reference; expected scheme:place, such as file:/path")
    try:
        return Scheme(scheme), place
    except ValueError:
        raise CredentialError(
            "(not shown)", "has an unknown scheme; expected file:, env:, systemd: or vault:"
        ) from None


def pair(reference: str, source: SecretSource) -> tuple[str, str]:
    """Return user name and password. Raises `CredentialError`."""
    _check_mark(reference, source.text)
    if source.form is SecretFormat.JSON or _is_object(source.text):
        found = _decoded(reference, source.text, _Pair, '{"username": …, "password": …}')
        username, password = found.username, found.password
    elif source.form is SecretFormat.FILE:
        username, password = _two_lines(reference, source.text)
    else:
        username, separator, password = source.text.partition(":")
        if not separator:
            raise CredentialError(reference, "expected user:password or JSON; found no colon")
    if not username or not password:
        raise CredentialError(reference, "the user name or the password is empty")
    _check_characters(reference, "user name", username)
    _check_characters(reference, "password", password)
    if ":" in username:
        raise CredentialError(reference, "a user name with a colon cannot be sent with basic authentication")
    return username, password


def token(reference: str, source: SecretSource) -> str:
    """Return a secret that has no user name. Raises `CredentialError`."""
    _check_mark(reference, source.text)
    if source.form is SecretFormat.JSON or _is_object(source.text):
        text = _decoded(reference, source.text, _Token, '{"token": …}').token
    else:
        text = _without_line_end(source.text)
    _check_characters(reference, "token", text)
    if not _TOKEN.fullmatch(text):
        raise CredentialError(reference, "expected a token: one line of visible ASCII characters, or JSON")
    return text


def trimmed(text: str) -> SecretSource:
    """Return the source for the text of a file, without the byte order mark, the white space at the ends of its lines,
    and the empty lines at its ends."""
    marked = text.startswith(_BYTE_ORDER_MARK)
    text = text.removeprefix(_BYTE_ORDER_MARK)
    found = ["a byte order mark"] if marked else []
    if not _is_object(text):
        lines = _without_line_end(text.replace("\r\n", "\n")).split("\n")
        text = "\n".join(line.strip() for line in lines).strip("\n")
        if text.split("\n") != lines:
            found.append("white space")
    return SecretSource(text=text, form=SecretFormat.FILE, removed=" and ".join(found))


def version(reference: str, source: SecretSource, username: str, password: str) -> str:
    """Return eight hexadecimal digits, preceded by the secret's version number if its store has versions. The digits
    are the same on every replica. After a rotation they differ, except with a probability of one in 2**32. There are
    only eight digits, so that many passwords have the same digits. An attacker who knows the digits cannot find the
    right password."""
    secret = "\0".join((reference, username, password)).encode()
    digest = hashlib.blake2b(secret, digest_size=4, person=b"farrier-version").hexdigest()
    return digest if source.number is None else f"{source.number}-{digest}"


def _is_object(text: str) -> bool:
    return text.lstrip().startswith("{")


def _two_lines(reference: str, text: str) -> tuple[str, str]:
    lines = text.split("\n")
    if len(lines) != 2:
        raise CredentialError(
            reference, f"expected JSON or two lines, user name and password; found {counted(len(lines), 'line')}"
        )
    username, password = lines
    return username, password


def _without_line_end(text: str) -> str:
    """Remove one line end of Unix or Windows, because an editor or `echo` adds a line end."""
    return text.removesuffix("\r\n") if text.endswith("\r\n") else text.removesuffix("\n")


def _check_mark(reference: str, text: str) -> None:
    """Raise `CredentialError` for a byte order mark at the beginning, because it makes JSON or a name unreadable."""
    if text.startswith(_BYTE_ORDER_MARK):
        raise CredentialError(reference, "begins with a byte order mark; remove it")


def _check_characters(reference: str, what: str, text: str) -> None:
    """Raise `CredentialError` for characters that can only be a mistake in a secret, and name the fault."""
    fault = _fault(text)
    if fault is not None:
        raise CredentialError(reference, f"the {what} {fault}; remove it")


def _fault(text: str) -> str | None:
    if _BYTE_ORDER_MARK in text:
        return "has a byte order mark"
    if text != text.lstrip():
        return "begins with white space"
    if text != text.rstrip():
        return "ends with white space"
    if any(unicodedata.category(character) == "Cc" for character in text):
        return "has a control character"
    return None


def _decoded(reference: str, text: str, shape: type[_T], expected: str) -> _T:
    try:
        return msgspec.json.decode(text, type=shape)
    except msgspec.MsgspecError as error:
        # The decoder's error names positions, fields and types, never values.
        raise CredentialError(reference, f"expected {expected}: {error}") from None
