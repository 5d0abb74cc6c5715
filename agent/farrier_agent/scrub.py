"""Overwriting the memory of GPUs, with evidence: a pattern and then zeros are written, and samples of both read back.

Source: CUDA Driver API, Primary Context Management and Memory Management (libcuda.so.1 belongs to the driver).
"""

from __future__ import annotations

import ctypes
import time
import uuid
from typing import Any

from farrier_agent import gpu, wipe
from farrier_agent.host import AgentError, Config, Host

_LARGEST, _SMALLEST = 1 << 30, 2 << 20  # bytes of one allocation; the driver hands out memory in units of 2 MiB
_SAMPLE = 4096  # bytes
_SAMPLES = 16  # of each allocation
_PATTERN = 0xA5
_LEAST_SHARE = 0.95  # of a GPU's memory; the driver keeps a few hundred MiB of it


def scrub(host: Host, config: Config) -> list[dict[str, Any]]:
    """Overwrite the memory of every GPU, and return the evidence. Raises AgentError if a GPU is in use."""
    busy = gpu.used(host)
    if busy:
        raise AgentError(f"GPUs are in use: {', '.join(busy[:5])}")
    read = gpu.read(host, config)
    cards = read.get("facts", {}).get("gpus", [])
    if len(cards) < max(len(gpu.present(host)), config.gpus):
        raise AgentError("; ".join(each["message"] for each in read["conditions"]) or "NVML does not list every GPU")
    if not cards:
        return []
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        raise AgentError("libcuda.so.1 is missing; install the compute library of NVIDIA's driver") from None
    _check(cuda.cuInit(0), "cuInit")
    handles = _by_uuid(cuda)
    return [_evidence(cuda, card, handles.get(card["uuid"])) for card in cards]


def _by_uuid(cuda: Any) -> dict[str, int]:
    """Return the devices of CUDA by the UUID that NVML shows."""
    count, found = ctypes.c_int(), {}
    _check(cuda.cuDeviceGetCount(ctypes.byref(count)), "cuDeviceGetCount")
    for index in range(count.value):
        device, name = ctypes.c_int(), (ctypes.c_ubyte * 16)()
        _check(cuda.cuDeviceGet(ctypes.byref(device), index), "cuDeviceGet")
        _check(cuda.cuDeviceGetUuid_v2(name, device), "cuDeviceGetUuid_v2")
        found[f"GPU-{uuid.UUID(bytes=bytes(name))}"] = device.value
    return found


def _evidence(cuda: Any, card: dict[str, Any], device: int | None) -> dict[str, Any]:
    began_at, found = time.monotonic(), wipe.device(card["serial"] or card["uuid"], "gpu", method="memory overwritten")
    try:
        if device is None:
            raise AgentError("CUDA does not show this GPU as a whole; switch off MIG")
        found["samples"], found["bad_samples"], share = _overwrite(cuda, device)
        found["message"] = f"{share:.1%} of the memory was overwritten"
        if not found["bad_samples"] and share >= _LEAST_SHARE:
            found["result"] = "erased"
    except AgentError as error:
        found["message"] = str(error)
    return {**found, "seconds": round(time.monotonic() - began_at, 1)}


def _overwrite(cuda: Any, device: int) -> tuple[int, int, float]:
    """Return the number of samples, of wrong samples, and the share of the memory that was overwritten."""
    context, free, total = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t()
    _check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device), "cuDevicePrimaryCtxRetain")
    try:
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
    finally:
        cuda.cuDevicePrimaryCtxReset_v2(device)


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
