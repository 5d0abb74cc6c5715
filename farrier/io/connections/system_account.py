"""The system account under which an embedded PostgreSQL server runs.

Only `embedded` uses this module. If an ordinary user starts farrier, the server runs as this user. PostgreSQL refuses
to run as root, so if root starts farrier, the server runs as another account. This account is the owner of an existing
data directory; otherwise `postgres`, if the machine has this account; otherwise `farrier-postgres`, which farrier
creates. The account must reach the data directory and PostgreSQL's programs. If a parent directory is closed, such as
root's home, farrier adds the permission to pass through the directory, and logs the change.
"""

from __future__ import annotations

import os
import pwd
import shutil
import stat
import subprocess
from pathlib import Path
from typing import TypedDict

import msgspec
import structlog

from farrier import errors

log = structlog.stdlib.get_logger(__name__)

_DISTRIBUTION_ACCOUNT = "postgres"
_OWN_ACCOUNT = "farrier-postgres"


class RunAs(TypedDict, total=False):
    """The arguments of `subprocess.run` that select the user and groups of the child process."""

    user: int
    group: int
    extra_groups: list[int]


class Account(msgspec.Struct, frozen=True):
    """The user and group of the server process. `switched` is set if they differ from the user and group of this
    process."""

    uid: int
    gid: int
    switched: bool

    def identity(self) -> RunAs:
        """Return the arguments for a child process that runs as this account."""
        return RunAs(user=self.uid, group=self.gid, extra_groups=[]) if self.switched else RunAs()

    def take(self, directory: Path) -> None:
        """Make the account the owner of a directory that was just created or found empty."""
        if self.switched:
            os.chown(directory, self.uid, self.gid)

    def own_directory(self, path: Path) -> None:
        """Create a directory that belongs to this account, in a shared directory such as /tmp. Raises ConfigError if
        the directory already belongs to another user."""
        path.mkdir(mode=0o700, exist_ok=True)
        found = path.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid not in (self.uid, os.geteuid()):
            raise errors.ConfigError(f"{path} belongs to another user; remove it, or use a shorter directory")
        self.take(path)

    def open_way(self, directory: Path, binaries: Path) -> None:
        """Give the account access to both directories, and let it read the programs and their libraries."""
        if not self.switched:
            return
        for parent in (*directory.parents, *binaries.parents):
            self._allow(parent, stat.S_IXOTH)
        for path in binaries.parent.rglob("*"):
            runnable = path.is_dir() or path.stat().st_mode & stat.S_IXUSR
            self._allow(path, stat.S_IROTH | stat.S_IXOTH if runnable else stat.S_IROTH)

    def _allow(self, path: Path, wanted: int) -> None:
        found = path.stat()
        if found.st_uid != self.uid and found.st_mode & wanted != wanted:
            path.chmod(stat.S_IMODE(found.st_mode) | wanted)
            log.warning("embedded.path_opened", path=str(path), reason="PostgreSQL won't run as root")


def for_server(data: Path) -> Account:
    """Return the account for the server of this data directory. The directory need not exist."""
    if os.geteuid() != 0:
        return Account(os.geteuid(), os.getegid(), switched=False)
    if data.exists():
        owner = data.stat()
        return Account(owner.st_uid, owner.st_gid, switched=True)
    entry = _find(_DISTRIBUTION_ACCOUNT) or _find(_OWN_ACCOUNT) or _create()
    return Account(entry.pw_uid, entry.pw_gid, switched=True)


def _find(name: str) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None


def _create() -> pwd.struct_passwd:
    useradd = shutil.which("useradd", path=f"{os.defpath}:/usr/sbin:/sbin")
    if useradd is None:
        raise errors.ConfigError(
            "PostgreSQL does not run as root, and there is neither an account `postgres` nor `useradd` to create "
            "one; run farrier as an ordinary user, or set the DSN of a server"
        )
    command = [useradd, "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", _OWN_ACCOUNT]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    entry = _find(_OWN_ACCOUNT)  # another process may have created it; only its existence matters
    if entry is None:
        raise errors.ConfigError(f"cannot create the account {_OWN_ACCOUNT}: {done.stderr.strip()}")
    return entry
