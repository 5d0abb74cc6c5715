"""Overwriting the memory of a GPU: a pattern and then zeros are written, and samples of both are read back.

Source: CUDA Driver API, Primary Context Management and Memory Management (libcuda.so.1 belongs to the driver).
"""

from __future__ import annotations

import ctypes
import os
import uuid
from typing import Any

from farrier_agent.host import AgentError

_LARGEST, _SMALLEST = 1 << 30, 2 << 20  # bytes of one allocation; the driver hands out memory in units of 2 MiB
_SAMPLE = 4096  # bytes
_SAMPLES = 16  # of each allocation
_PATTERN = 0xA5
_LEAST_SHARE = 0.95  # of a GPU's memory; the driver keeps a few hundred MiB of it


def scrub(card: str) -> dict[str, Any]:
    """Overwrite the memory of the GPU with this UUID, and return what was found."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        raise AgentError("libcuda.so.1 is missing; install the compute library of NVIDIA's driver") from None
    os.environ["CUDA_VISIBLE_DEVICES"] = card  # a GPU of which CUDA shows only a MIG instance has another UUID
    device, name = ctypes.c_int(), (ctypes.c_ubyte * 16)()
    _check(cuda.cuInit(0), "cuInit")
    _check(cuda.cuDeviceGet(ctypes.byref(device), 0) or cuda.cuDeviceGetUuid_v2(name, device), "cuDeviceGet")
    if card != f"GPU-{uuid.UUID(bytes=bytes(name))}":
        raise AgentError("CUDA does not show this GPU as a whole; switch off MIG")
    samples, bad, share = _overwrite(cuda, device)
    is_erased = not bad and share >= _LEAST_SHARE
    said = f"{bad} of {samples} samples are wrong; " if bad else ""
    return {
        "method": "memory overwritten", "result": "erased" if is_erased else "failed", "samples": samples,
        "bad_samples": bad, "message": f"{said}{share:.1%} of the memory was overwritten",
    }  # fmt: skip


def _overwrite(cuda: Any, device: ctypes.c_int) -> tuple[int, int, float]:
    """Return the number of samples, of wrong samples, and the share of the memory that was overwritten."""
    context, free, total = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t()
    _check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device), "cuDevicePrimaryCtxRetain")
    _check(cuda.cuCtxSetCurrent(context), "cuCtxSetCurrent")
    _check(cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)), "cuMemGetInfo")
    held, size = [], _LARGEST
    while size >= _SMALLEST:
        place = ctypes.c_uint64()
        if cuda.cuMemAlloc_v2(ctypes.byref(place), ctypes.c_size_t(size)):
            size //= 2
        else:
            held.append((place.value, size))
    bad = sum(_written(cuda, place, size, value) for value in (_PATTERN, 0) for place, size in held)
    return 2 * _SAMPLES * len(held), bad, sum(size for _, size in held) / max(total.value, 1)


def _written(cuda: Any, place: int, size: int, value: int) -> int:
    """Fill an allocation with a byte, and return how many samples of it are wrong."""
    _check(cuda.cuMemsetD8_v2(ctypes.c_uint64(place), ctypes.c_ubyte(value), ctypes.c_size_t(size)), "cuMemsetD8")
    read, bad = ctypes.create_string_buffer(_SAMPLE), 0
    for number in range(_SAMPLES):
        at = place + (size - _SAMPLE) * number // (_SAMPLES - 1)
        _check(cuda.cuMemcpyDtoH_v2(read, ctypes.c_uint64(at), ctypes.c_size_t(_SAMPLE)), "cuMemcpyDtoH")
        bad += read.raw != bytes([value]) * _SAMPLE
    return bad


def _check(code: int, call: str) -> None:
    if code:
        raise AgentError(f"{call} failed with CUDA error {code}")
