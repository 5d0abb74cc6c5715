"""Erasing disks, with evidence: what was erased is read back, because a disk may report success and erase nothing.

Sources: nvme-format(1), --ses=1 (user data erase); blkdiscard(8) --zeroout; open(2) O_DIRECT and O_EXCL.
"""

from __future__ import annotations

import errno
import mmap
import os
import random
import secrets
import time
from collections.abc import Mapping
from typing import Any, Callable

from farrier_agent import disks
from farrier_agent.host import AgentError, Config, Host, tool

_PIECE = 4096  # bytes of a sample: a multiple of every disk's block
_STRIDE = 1024 * 1024  # bytes that are read or written at once
_READ_WHOLE = 256 * 1024 * 1024  # bytes; smaller disks are read as a whole, within a second
_MARKS = 64  # places at which random data are written before erasing, so that an unchanged disk is noticed
_SAMPLES = 1024  # further places that are read after it

Device = dict[str, Any]


def erase(host: Host, config: Config, name: str) -> Device:
    """Erase one disk by the first method after which it reads as zero, and return the evidence."""
    found = device(disks.serial(host, name), "disk")
    node, size, began_at, said = host.path(f"/dev/{name}"), disks.size(host, name), time.monotonic(), []
    try:
        disks.free(host, name)
        marks = _mark(node, size)
        for method in config.wipe:
            found["method"], act = _METHODS[method]
            try:
                act(node, size, config.wipe_seconds)
            except (AgentError, OSError) as error:
                said.append(f"{found['method']}: {error}")
                continue
            found["samples"], found["bad_samples"] = sampled(node, size, marks)
            if not found["bad_samples"]:
                found["result"] = "erased"
                break
            said.append(f"{found['method']} reported success, but {_counted(found)} are not zero")
    except (AgentError, OSError) as error:
        said.append("something uses the disk" if getattr(error, "errno", None) == errno.EBUSY else str(error))
    return {**found, "seconds": round(time.monotonic() - began_at, 1), "message": "; ".join(said)[:500]}


def check(host: Host, name: str) -> Device:
    """Read samples of a disk that was erased, and return the evidence."""
    began_at, found = time.monotonic(), device(disks.serial(host, name), "disk", method="read")
    found["samples"], found["bad_samples"] = sampled(host.path(f"/dev/{name}"), disks.size(host, name), [])
    is_zero = not found["bad_samples"]
    said = {"result": "erased"} if is_zero else {"message": f"{_counted(found)} are not zero"}
    return {**found, "seconds": round(time.monotonic() - began_at, 1), **said}


def device(serial: str, kind: str, **known: Any) -> Device:
    """Return the evidence about one device, which has failed unless `known` says otherwise."""
    empty = {"method": "", "result": "failed", "samples": 0, "bad_samples": 0, "seconds": 0.0, "message": ""}
    return {"serial": serial, "kind": kind, **empty, **known}


def sampled(node: str, size: int, marks: list[int]) -> tuple[int, int]:
    """Return how many places of a disk were read, and how many of them are not zero. The page cache is bypassed."""
    if size <= _READ_WHOLE:
        places, length = list(range(0, size, _STRIDE)), _STRIDE
    else:
        last = size // _PIECE - 1
        ends = [*range(0, _STRIDE, _PIECE), *(size - _STRIDE + at for at in range(0, _STRIDE, _PIECE))]
        places, length = [*marks, *ends, *(random.randrange(last) * _PIECE for _ in range(_SAMPLES))], _PIECE
    zero = bytes(length)
    descriptor, buffer = _open(node, os.O_RDONLY), mmap.mmap(-1, length)
    try:
        bad = 0
        for place in places:
            count = os.preadv(descriptor, [memoryview(buffer)[: min(length, size - place)]], place)
            bad += count <= 0 or buffer[:count] != zero[:count]
    finally:
        os.close(descriptor)
    return len(places), bad


def _mark(node: str, size: int) -> list[int]:
    """Write random data at places all over the disk, and return the places. Fails if the disk is in use."""
    last = size // _PIECE - 1
    places = sorted({0, last * _PIECE, *(last * each // _MARKS * _PIECE for each in range(_MARKS))})
    _write(node, [(place, secrets.token_bytes(_PIECE)) for place in places])
    return places


def _write(node: str, parts: Any) -> None:
    descriptor, buffer = _open(node, os.O_WRONLY | os.O_EXCL), mmap.mmap(-1, _STRIDE)
    try:
        for place, content in parts:
            buffer[: len(content)] = content
            view = memoryview(buffer)[: len(content)]
            while view:
                view = view[os.pwritev(descriptor, [view], place + len(content) - len(view)) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _open(node: str, flags: int) -> int:
    try:
        return os.open(node, flags | os.O_DIRECT)
    except OSError as error:
        if error.errno != errno.EINVAL:  # this file system has no direct access
            raise
        return os.open(node, flags)


def _format(node: str, _size: int, limit: float) -> None:
    if not os.path.basename(node).startswith("nvme"):
        raise AgentError("it is not an NVMe disk")
    tool("nvme", "format", node, "--ses=1", "--force", timeout=limit)


def _zero_out(node: str, _size: int, limit: float) -> None:
    tool("blkdiscard", "--zeroout", "--force", node, timeout=limit)


def _overwrite(node: str, size: int, limit: float) -> None:
    ends_at, zero = time.monotonic() + limit, bytes(_STRIDE)

    def parts() -> Any:
        for place in range(0, size, _STRIDE):
            if time.monotonic() > ends_at:
                raise AgentError(f"it did not end within {limit:.0f} s")
            yield place, zero[: size - place]

    _write(node, parts())


_METHODS: Mapping[str, tuple[str, Callable[[str, int, float], None]]] = {
    "format": ("nvme format --ses=1", _format),
    "zeroout": ("blkdiscard --zeroout", _zero_out),
    "write": ("zeros written", _overwrite),
}


def _counted(found: Device) -> str:
    return f"{found['bad_samples']} of {found['samples']} samples"
