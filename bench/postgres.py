"""The CPU time of a PostgreSQL server on this machine."""

from __future__ import annotations

import os
from pathlib import Path

from bench.ground import Ground
from farrier.errors import ConfigError

_BACKEND = "SELECT pg_backend_pid()"


def _fields(pid: int | str) -> list[str]:
    """Return the fields of `/proc/PID/stat` after the name of the program, which may contain blanks."""
    return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()


def _program(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text(encoding="ascii").strip()


async def postmaster(ground: Ground) -> int:
    """Return the process id of the server. Raises ConfigError if the server is on another machine."""
    backend = await ground.pool.fetchval(_BACKEND)
    try:
        name, parent = _program(backend), int(_fields(backend)[1])
    except OSError:
        name, parent = "", 0
    if name != "postgres":
        raise ConfigError("this benchmark looks up PostgreSQL's processes; it needs a server on this machine")
    return parent


def seconds(postmaster: int) -> float:
    """Return the CPU time of all PostgreSQL processes, including processes that have ended."""
    ticks = sum(int(field) for field in _fields(postmaster)[11:15])
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        try:
            fields = _fields(pid)
        except OSError:  # the process has ended in the meantime
            continue
        if int(fields[1]) == postmaster:
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")
