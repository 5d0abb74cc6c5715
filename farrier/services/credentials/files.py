"""Reads secrets from files: `file:` below the configured directories, `systemd:` in the unit's credentials directory.

If a path leads outside the directories after all symlinks are followed, it is refused before the file is opened. Only
regular files of a limited size are read, and they are read again for each call. Error texts contain the reference and
never the content.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from farrier.errors import CredentialError

# A credential consists of two short texts, so a larger file is not a credential.
LARGEST_SECRET_BYTES = 64 * 1024


def read_file(reference: str, name: str, *, roots: tuple[Path, ...]) -> str:
    """Read the file of a `file:` reference. Raises `CredentialError`."""
    if not roots:
        raise CredentialError(
            reference, "no directory for references of the form file:PATH is configured; set credentials.file_roots"
        )
    return _read_below(reference, Path(name), roots=roots)


def read_systemd(reference: str, name: str, *, directory: str | None) -> str:
    """Read the file of a `systemd:` reference from `directory`, the unit's credentials directory. Raises
    `CredentialError`."""
    if not directory:
        raise CredentialError(
            reference, "CREDENTIALS_DIRECTORY is not set: add LoadCredential= for this name to the unit"
        )
    if "/" in name:
        raise CredentialError(reference, "the name of a systemd credential must not contain a slash")
    return _read_below(reference, Path(directory) / name, roots=(Path(directory),))


def _read_below(reference: str, path: Path, *, roots: tuple[Path, ...]) -> str:
    """Return the content of a regular file that is below one of `roots` after all symlinks are followed."""
    if not path.is_absolute():
        raise CredentialError(reference, "the path in a reference of the form file:PATH must be absolute")
    try:
        real = _real(path)
    except (OSError, RuntimeError, ValueError):
        raise CredentialError(
            reference, "is not a usable path: it contains a loop of symlinks or a null byte"
        ) from None
    # Both paths end in a slash here, so that a directory is outside if its name only begins with the name of a root.
    if not any(f"{real}/".startswith(os.path.join(_real(root), "")) for root in roots):
        allowed = ", ".join(str(root) for root in roots)
        raise CredentialError(
            reference, f"is outside the configured directories ({allowed}), after symlinks are resolved"
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


def _real(path: Path) -> str:
    """Return `path` with all symlinks followed. Raises the exceptions of `Path.resolve`.

    The kernel follows symlinks three times as fast as Python, and O_PATH has no effect on a FIFO or a device. If the
    kernel does not find the path, Python resolves the path, which need not exist. So an error about a path outside the
    roots does not reveal whether the file exists.
    """
    try:
        found = os.open(path, os.O_PATH)
        try:
            real = os.readlink(f"/proc/self/fd/{found}")
        finally:
            os.close(found)
    except OSError:
        return str(path.resolve())
    # A rotation has just replaced the file, so read the new file.
    return str(path.resolve()) if real.endswith(" (deleted)") else real


def _open_as_it_is(path: str, flags: int) -> int:
    """Open the file, but follow no symlink that replaced it after the check, and do not block on a FIFO."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)
