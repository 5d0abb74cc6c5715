"""Credential references resolved: `file:`, `env:` and `systemd:`.

    file:/run/creds/bmc-1         a file below one of the configured roots, after symlinks
    env:FARRIER_SECRET_BMC    an environment variable with the configured prefix
    systemd:bmc                   a file in the unit's credentials directory (LoadCredential=)

A file holds `{"username": …, "password": …}` or two lines, user name and password; a variable holds the same
JSON or `user:password`. What lies outside the configured places is refused before it is read. Nothing is kept
between calls, so the next one sees a rotated secret, and no error's text repeats what a source contains.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Mapping
from pathlib import Path

import anyio.to_thread
import msgspec
from typing_extensions import override

from farrier import protocols
from farrier.errors import CredentialError
from farrier.model.credential import Credential

# A credential is two short texts; whatever is longer is not one.
LARGEST_SECRET_BYTES = 64 * 1024


class CredentialPlaces(msgspec.Struct, frozen=True, kw_only=True):
    """Where references may point. The defaults allow `env:` with a prefix of our own and `systemd:`, no file.

    `version_key` (up to 64 bytes, the same on every replica) keys the digests that tell versions apart.
    Without it someone who reads them can test guesses of a weak password.
    """

    file_roots: tuple[Path, ...] = ()
    env_prefix: str = "FARRIER_SECRET_"
    version_key: bytes = b""

    def __post_init__(self) -> None:
        if len(self.version_key) > hashlib.blake2b.MAX_KEY_SIZE:
            raise ValueError(
                f"version_key has {len(self.version_key)} bytes, {hashlib.blake2b.MAX_KEY_SIZE} is the most"
            )

    @override
    def __repr__(self) -> str:
        return f"CredentialPlaces(file_roots={self.file_roots!r}, env_prefix={self.env_prefix!r})"


class Credentials(protocols.CredentialStore):
    """The `CredentialStore` over files, environment and systemd."""

    def __init__(self, places: CredentialPlaces, *, environ: Mapping[str, str] = os.environ) -> None:
        self._places = places
        self._environ = environ

    @override
    async def resolve(self, reference: str) -> Credential:
        username, password = await self._read(reference)
        return Credential(
            username=username,
            password=password,
            version=_version(reference, username, password, key=self._places.version_key),
        )

    @override
    async def version(self, reference: str) -> str:
        return (await self.resolve(reference)).version

    async def _read(self, reference: str) -> tuple[str, str]:
        scheme, separator, rest = reference.partition(":")
        if not (scheme and separator and rest):
            # Perhaps a secret in the wrong place: the text must not repeat it.
            raise CredentialError("(not shown)", "is no reference; write scheme:place, such as file:/path")
        match scheme:
            case "file":
                text = await anyio.to_thread.run_sync(self._read_file, reference, rest)
                return _parse_file(reference, text)
            case "systemd":
                text = await anyio.to_thread.run_sync(self._read_systemd, reference, rest)
                return _parse_file(reference, text)
            case "env":
                return _parse_variable(reference, self._read_variable(reference, rest))
            case _:
                raise CredentialError(
                    f"{scheme}:…", "has an unknown scheme; this farrier knows file:, env: and systemd:"
                )

    def _read_file(self, reference: str, name: str) -> str:
        if not self._places.file_roots:
            raise CredentialError(reference, "no directory for file: references is configured")
        return _read_below(reference, Path(name), roots=self._places.file_roots)

    def _read_systemd(self, reference: str, name: str) -> str:
        directory = self._environ.get("CREDENTIALS_DIRECTORY")
        if not directory:
            raise CredentialError(
                reference, "CREDENTIALS_DIRECTORY is not set: the unit needs LoadCredential= for this name"
            )
        if "/" in name:
            raise CredentialError(reference, "a systemd credential is a plain name, without a slash")
        return _read_below(reference, Path(directory) / name, roots=(Path(directory),))

    def _read_variable(self, reference: str, name: str) -> str:
        prefix = self._places.env_prefix
        if not name.startswith(prefix):
            raise CredentialError(reference, f"only variables that start with {prefix} may be used")
        value = self._environ.get(name)
        if value is None:
            raise CredentialError(reference, "the variable is not set in the environment of this process")
        return value


def _read_below(reference: str, path: Path, *, roots: tuple[Path, ...]) -> str:
    """The content of a regular file that lies, with all symlinks followed, below one of `roots`."""
    if not path.is_absolute():
        raise CredentialError(reference, "a file reference is an absolute path")
    try:
        real = path.resolve()
    except (OSError, RuntimeError, ValueError):
        raise CredentialError(reference, "is no usable path: a loop of symlinks or a null byte") from None
    if not any(real.is_relative_to(root.resolve()) for root in roots):
        allowed = ", ".join(str(root) for root in roots)
        raise CredentialError(
            reference, f"lies, with symlinks followed, outside the configured directories ({allowed})"
        )
    try:
        with open(real, "rb", opener=_open_as_it_is) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise CredentialError(reference, "is not a regular file")
            content = file.read(LARGEST_SECRET_BYTES + 1)
    except OSError as error:
        raise CredentialError(reference, f"cannot be read: {error.strerror}") from None
    if len(content) > LARGEST_SECRET_BYTES:
        raise CredentialError(reference, f"is larger than {LARGEST_SECRET_BYTES} bytes")
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise CredentialError(reference, "is not UTF-8 text") from None


def _open_as_it_is(path: str, flags: int) -> int:
    """O_NOFOLLOW: nobody swaps in a symlink after the check. O_NONBLOCK: a FIFO must not hold a thread."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


class _Pair(msgspec.Struct, frozen=True):
    username: str
    password: str


def _parse_file(reference: str, text: str) -> tuple[str, str]:
    if text.lstrip().startswith("{"):
        return _parse_json(reference, text)
    lines = text.removesuffix("\n").split("\n")
    if len(lines) != 2:
        raise CredentialError(
            reference, f"expected JSON or two lines, user name and password; found {len(lines)} line(s)"
        )
    username, password = (line.removesuffix("\r") for line in lines)
    return _checked(reference, username, password)


def _parse_variable(reference: str, text: str) -> tuple[str, str]:
    if text.lstrip().startswith("{"):
        return _parse_json(reference, text)
    username, separator, password = text.partition(":")
    if not separator:
        raise CredentialError(reference, "expected user:password or JSON; found no colon")
    return _checked(reference, username, password)


def _parse_json(reference: str, text: str) -> tuple[str, str]:
    try:
        pair = msgspec.json.decode(text, type=_Pair)
    except msgspec.MsgspecError as error:
        # The decoder names positions, fields and types, never values.
        raise CredentialError(reference, f'expected {{"username": …, "password": …}}: {error}') from None
    return _checked(reference, pair.username, pair.password)


def _checked(reference: str, username: str, password: str) -> tuple[str, str]:
    if not username or not password:
        raise CredentialError(reference, "the user name or the password is empty")
    if ":" in username:
        raise CredentialError(reference, "a user name with a colon cannot be sent by basic authentication")
    return username, password


def _version(reference: str, username: str, password: str, *, key: bytes) -> str:
    """Eight hexadecimal digits: equal on every replica, different after a rotation but for one in 2**32.

    So short on purpose: of a password with real entropy it leaves too many candidates to find the right one.
    """
    secret = "\0".join((reference, username, password)).encode()
    return hashlib.blake2b(secret, key=key, digest_size=4, person=b"farrier-version").hexdigest()
