"""Erasing disks: what was erased is read back, because a disk may report success and erase nothing.

Sources: nvme-format(1), --ses=1 (user data erase); blkdiscard(8) --zeroout, with which the kernel writes zeros to a
disk that has no command for it; open(2) O_DIRECT and O_EXCL.
"""

from __future__ import annotations

import mmap
import os
import random
import secrets
import stat
from typing import Any

from farrier_agent import disks
from farrier_agent.host import AgentError, Config, Host, tool

_PIECE = 4096  # bytes of a sample: a multiple of every disk's block
_ENDS = 256  # pieces at the beginning, and as many at the end, that are read: partition tables, headers of RAID
_MARKS = 64  # pieces to which random data are written before erasing, so that an unchanged disk is noticed
_SAMPLES = 1024  # further pieces that are read after it
# Names of methods in config.json, and their commands, to which the disk is added. Steps can be interrupted.
_METHODS = {
    "format": ("nvme", "format", "--ses=1", "--force"),
    "zeroout": ("blkdiscard", "--zeroout", "--force", "--step", "1GiB"),
}


def erase(host: Host, config: Config, name: str) -> dict[str, Any]:
    """Erase one disk by the first method after which it reads as zero, and return what was found."""
    node, found, said = host.path(f"/dev/{name}"), {}, []
    methods = [_METHODS[each] for each in config.wipe if each in _METHODS]
    if len(methods) < len(config.wipe):
        raise AgentError(f"wipe in config.json: expected {' or '.join(_METHODS)}, got {', '.join(config.wipe)}")
    disks.free(host, name)
    marks = _mark(node, disks.size(host, name))
    for command in methods:
        method = " ".join(command)
        if command[0] == "nvme" and not name.startswith("nvme"):
            said.append(f"{method}: it is not an NVMe disk")
            continue
        try:
            tool(*command, node, timeout=config.wipe_seconds)
        except AgentError as error:
            said.append(str(error))
            continue
        found = {**check(host, name, marks), "method": method}
        if found["result"] == "erased":
            break
        said.append(f"{method} reported success, but {found['message']}")
    return {**found, "message": "; ".join(said)[:500]}


def check(host: Host, name: str, marks: list[int]) -> dict[str, Any]:
    """Read samples of a disk that was erased, past the page cache, and return what was found."""
    last, zero = disks.size(host, name) // _PIECE, bytes(_PIECE)
    ends = [*range(min(_ENDS, last)), *range(max(last - _ENDS, 0), last)]
    pieces = sorted({*marks, *ends, *(random.randrange(last) for _ in range(_SAMPLES))})
    buffer = mmap.mmap(-1, _PIECE)
    with os.fdopen(_open(host.path(f"/dev/{name}"), os.O_RDONLY), "rb", 0) as disk:
        bad = sum(os.preadv(disk.fileno(), [buffer], at * _PIECE) != _PIECE or buffer[:] != zero for at in pieces)
    said = f"{bad} of {len(pieces)} samples are not zero" if bad else ""
    result = "failed" if bad else "erased"
    return {"method": "read", "result": result, "samples": len(pieces), "bad_samples": bad, "message": said}


def _mark(node: str, size: int) -> list[int]:
    """Write random data to pieces all over the disk, and return their numbers. Fails if the disk is in use, or does not
    keep them: an erasure of such a disk proves nothing."""
    last = size // _PIECE - 1
    pieces = [last * each // (_MARKS - 1) for each in range(_MARKS)]
    buffer = mmap.mmap(-1, _PIECE)
    with os.fdopen(_open(node, os.O_RDWR | os.O_EXCL), "r+b", 0) as disk:
        for at in pieces:
            written = buffer[:] = secrets.token_bytes(_PIECE)
            os.pwritev(disk.fileno(), [buffer], at * _PIECE)
            os.preadv(disk.fileno(), [buffer], at * _PIECE)
            if buffer[:] != written:
                raise AgentError("the disk does not keep what is written to it")
        os.fsync(disk.fileno())
    return pieces


def _open(node: str, flags: int) -> int:
    """Open a disk past the page cache; a file, which stands for a disk in a test, may have no direct access."""
    is_disk = stat.S_ISBLK(os.stat(node).st_mode)
    return os.open(node, flags | os.O_DIRECT if is_disk else flags)
