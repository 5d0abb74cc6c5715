"""Records open sessions on disk, so that a new process can close the sessions of a killed process.

Each process has a directory below the configured directory. A session is recorded before its login is sent, and again
with its ID after the BMC has opened it. The record is removed when the session has ended. If the lock of a directory is
free, the directory's process has ended, and the new process closes the sessions of that process. No secret is recorded:
neither token nor password. Disk access runs in threads.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from uuid import uuid4

import anyio.to_thread
import msgspec
import structlog
from yarl import URL

from farrier import errors

log = structlog.stdlib.get_logger(__name__)

_LOCK = "lock"
_SUFFIX = ".json"


class SessionRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The record of one session. `location` is its ID, None until the BMC has returned it; `created` is its creation
    time by the BMC's clock."""

    bmc: str
    location: str | None = None
    created: str | None = None


class RecordFile(msgspec.Struct, frozen=True):
    """A record and its file."""

    path: Path
    record: SessionRecord


class SessionRecords:
    """The records of this process and of ended processes, by BMC. Without a directory, they are only in memory: if the
    process is killed, its sessions stay open until the BMCs end them."""

    def __init__(self, own: Path | None = None, left: Sequence[RecordFile] = ()) -> None:
        self._own = own
        self._left: dict[URL, list[RecordFile]] = {}
        for entry in left:
            self.leave(entry)

    def left(self, bmc: URL) -> tuple[RecordFile, ...]:
        """Return the sessions at a BMC that no process uses any more."""
        return tuple(self._left.get(bmc, ()))

    def leave(self, entry: RecordFile) -> None:
        """Record that no process uses the session any more."""
        self._left.setdefault(URL(entry.record.bmc), []).append(entry)

    async def begin(self, bmc: URL) -> RecordFile | None:
        """Record that a login for a session is about to be sent. Returns None if it cannot be recorded and so must not
        be sent."""
        entry = RecordFile((self._own or Path()) / f"{uuid4().hex}{_SUFFIX}", SessionRecord(bmc=str(bmc)))
        return entry if self._own is None or await _recorded(entry) else None

    async def opened(self, entry: RecordFile, *, location: str | None, created: str | None) -> RecordFile:
        """Add the location and the creation time that the BMC returned to the record of the session."""
        known = RecordFile(entry.path, SessionRecord(bmc=entry.record.bmc, location=location, created=created))
        if self._own is not None:
            await _recorded(known)
        return known

    async def forget(self, entry: RecordFile) -> None:
        """Remove the record of a session that has ended or was never opened."""
        bmc = URL(entry.record.bmc)
        rest = [other for other in self._left.pop(bmc, ()) if other.path != entry.path]
        if rest:
            self._left[bmc] = rest
        if self._own is not None:
            await anyio.to_thread.run_sync(_remove, entry.path, self._own)


@contextmanager
def open_records(directory: Path) -> Iterator[SessionRecords]:
    """Open the records below `directory`. Raises `ConfigError` if no record can be written there."""
    with ExitStack() as locks:
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            own = _made(directory, locks)
            left = [entry for dead in _dead(directory, locks) for entry in _read(dead)]
        except OSError as error:
            raise errors.ConfigError(
                f"cannot record sessions of BMCs in {directory} (bmc.session_directory): {error.strerror}; this user "
                "needs write permission there"
            ) from error
        try:
            yield SessionRecords(own, left)
        finally:
            with suppress(OSError):
                if not any(own.glob(f"*{_SUFFIX}")):
                    shutil.rmtree(own)


def _made(directory: Path, locks: ExitStack) -> Path:
    """Create the directory of this process. The directory gets its final name after it is locked."""
    name = uuid4().hex
    hidden = directory / f".{name}"
    hidden.mkdir(mode=0o700)
    lock = _lock(hidden)
    assert lock is not None, "no other process knows its name"
    locks.callback(os.close, lock)
    return hidden.rename(directory / name)


def _dead(directory: Path, locks: ExitStack) -> Iterator[Path]:
    """Lock the directories of ended processes and return them. No other process uses a locked directory."""
    for place in sorted(directory.iterdir()):
        if place.name.startswith(".") or not place.is_dir():
            continue
        with suppress(FileNotFoundError):  # the process has just ended normally
            lock = _lock(place)
            if lock is not None:
                locks.callback(os.close, lock)
                yield place


def _lock(place: Path) -> int | None:
    """Take the lock of a directory, which also ends if the process is killed; None if another process has it."""
    file = os.open(place / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        return None
    return file


def _read(place: Path) -> Iterator[RecordFile]:
    entries = list(place.glob(f"*{_SUFFIX}"))
    for path in entries:
        try:
            yield RecordFile(path, msgspec.json.decode(path.read_bytes(), type=SessionRecord))
        except msgspec.MsgspecError:
            log.warning("bmc.session_record_unreadable", path=str(path))
    if not entries:
        shutil.rmtree(place, ignore_errors=True)


async def _recorded(entry: RecordFile) -> bool:
    try:
        await anyio.to_thread.run_sync(_write, entry)
    except OSError as error:
        log.warning("bmc.session_not_recorded", bmc=entry.record.bmc, error=error.strerror)
        return False
    return True


def _write(entry: RecordFile) -> None:
    """Write the record atomically. When this function returns, the record is on disk."""
    new = entry.path.with_suffix(".new")
    with open(new, "wb", opener=partial(os.open, mode=0o600)) as file:
        file.write(msgspec.json.encode(entry.record))
        file.flush()
        os.fsync(file.fileno())
    new.replace(entry.path)
    folder = os.open(entry.path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _remove(path: Path, own: Path) -> None:
    with suppress(OSError):
        path.unlink(missing_ok=True)
        if path.parent != own and not any(path.parent.glob(f"*{_SUFFIX}")):
            shutil.rmtree(path.parent, ignore_errors=True)
