"""What a machine leaves on its system disk, seen from the computer that runs the tests."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.support import programs

# cloud-init keeps the user data that it got, and logs what it did.
_OF_CLOUD_INIT = ("/var/lib/cloud", "/var/log", "/run")

_CORRECTED = 1  # exit code of e2fsck that has corrected errors


def remains(disk: Path, directory: Path, word: str) -> list[str]:
    """The files of a disk whose path or content has this word, except for what cloud-init keeps. Copies the files to a
    new directory."""
    directory.mkdir()
    # The power was cut, so the newest changes may be only in the journal of the file system.
    checked = subprocess.run([programs.program("e2fsck"), "-p", disk], capture_output=True, text=True, check=False)
    assert checked.returncode <= _CORRECTED, checked.stdout + checked.stderr
    subprocess.run([programs.program("debugfs"), "-R", f"rdump / {directory}", disk], capture_output=True, check=True)
    return sorted(_with(directory, word))


def _with(directory: Path, word: str) -> Iterator[str]:
    for path in directory.rglob("*"):
        name = "/" + str(path.relative_to(directory))
        if name.startswith(_OF_CLOUD_INIT):
            continue
        if word in name or (path.is_file() and not path.is_symlink() and word.encode() in path.read_bytes()):
            yield name
