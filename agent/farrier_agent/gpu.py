"""GPUs, read by NVML, through NVIDIA's own nvidia-ml-py. A call of NVML can hang, so this runs in a process of its own.

Sources: nvml.h for each call; NVIDIA, GPU Deployment: GPU Memory Error Management (row remapping, SRAM errors);
DCGM's health checks (a volatile uncorrectable error, a lost NVLink and a failed remapping are failures).
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from typing import Any, Callable

from farrier_agent.conditions import NOTE, QUARANTINE, Condition, condition
from farrier_agent.host import AgentError, Config, Host
from farrier_agent.system import liveness

_NVIDIA = 0x10DE  # pci.ids
_DISPLAY = (0x0300, 0x0302)  # linux/pci_ids.h: VGA and 3D controllers
_FABRIC_STARTS = 600.0  # seconds after the start of the machine until the fabric has to be ready
# nvml.h: nvmlClocksEventReasonHwThermalSlowdown, nvmlClocksEventReasonHwPowerBrakeSlowdown
_BRAKES = {0x40: "thermal", 0x80: "power"}
_NO_SUCH_LINK = 2  # nvml.h: NVML_ERROR_INVALID_ARGUMENT
_FABRIC_STATES = {1: "not started", 2: "in progress"}


def present(host: Host) -> list[str]:
    """Return the PCI addresses of NVIDIA's GPUs. Source: ABI/testing/sysfs-bus-pci."""
    found = []
    for device in host.glob("/sys/bus/pci/devices/*"):
        if host.number(f"{device}/vendor") == _NVIDIA and (host.number(f"{device}/class") or 0) >> 8 in _DISPLAY:
            found.append(os.path.basename(device).lower())
    return found


def read(host: Host, config: Config) -> dict[str, Any]:
    """Return facts and conditions of the GPUs."""
    on_bus, found = present(host), []
    said = f"{len(on_bus)} GPUs are on the PCI bus"
    if config.gpus and len(on_bus) != config.gpus:
        found.append(condition("gpu/count", f"{said}, expected {config.gpus}", QUARANTINE))
    if not on_bus:
        return {"facts": {"gpus": [], "driver": None}, "conditions": found}
    import pynvml as nvml

    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        return {
            "conditions": [*found, condition("gpu/driver", f"{said}, but NVML does not start: {error}", QUARANTINE)]
        }
    cards, links = [], {}
    count = nvml.nvmlDeviceGetCount()
    for index in range(count):
        target = f"GPU {index}"
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            card = _facts(nvml, handle)
            target = card["serial"] or card["uuid"] or target
            found += _judged(nvml, handle, target, liveness(host)["uptime"])
            links[target] = _links(nvml, handle)
            cards.append(card)
        except nvml.NVMLError as error:
            found.append(condition("gpu/lost", f"NVML does not reach {target}: {error}", QUARANTINE, target))
    listed = {card["slot"] for card in cards}
    for pci in on_bus if count < len(on_bus) else []:
        if pci not in listed:
            found.append(condition("gpu/lost", f"{said}, but NVML does not list {pci}", QUARANTINE, pci))
    most = max(links.values(), default=0)
    for target, up in links.items():
        if up < most:
            found.append(condition("gpu/nvlink", f"{up} NVLinks are up, {most} on other GPUs", QUARANTINE, target))
    return {"facts": {"gpus": cards, "driver": _ask(nvml, nvml.nvmlSystemGetDriverVersion)}, "conditions": found}


def used(host: Host) -> list[str]:
    """Return a text for each process that computes on a GPU. A lost GPU, and one without driver, runs no process."""
    if not present(host):
        return []
    import pynvml as nvml

    busy, index = [], 0
    try:
        nvml.nvmlInit()
        for index in range(nvml.nvmlDeviceGetCount()):
            busy += [f"process {each} on GPU {index}" for each in _processes(nvml, index)]
    except nvml.NVMLError as error:
        if error.value not in (nvml.NVML_ERROR_DRIVER_NOT_LOADED, nvml.NVML_ERROR_LIBRARY_NOT_FOUND):
            raise AgentError(f"NVML does not tell which processes use GPU {index}: {error}") from None
    return busy


def _processes(nvml: Any, index: int) -> list[int]:
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        return [each.pid for each in nvml.nvmlDeviceGetComputeRunningProcesses(handle)]
    except nvml.NVMLError as error:
        if error.value == nvml.NVML_ERROR_GPU_IS_LOST:
            return []
        raise


def _facts(nvml: Any, handle: Any) -> dict[str, Any]:
    place = nvml.nvmlDeviceGetPciInfo(handle)
    return {
        "slot": f"{place.domain:04x}:{place.bus:02x}:{place.device:02x}.0",  # sysfs writes the domain with four digits
        "uuid": _ask(nvml, nvml.nvmlDeviceGetUUID, handle),
        "serial": _ask(nvml, nvml.nvmlDeviceGetSerial, handle),
        "model": _ask(nvml, nvml.nvmlDeviceGetName, handle),
        "firmware": _ask(nvml, nvml.nvmlDeviceGetVbiosVersion, handle),
    }


def _judged(nvml: Any, handle: Any, target: str, uptime: float) -> Iterator[Condition]:
    kind, since = nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC
    errors = _ask(nvml, nvml.nvmlDeviceGetTotalEccErrors, handle, kind, since)
    if errors:
        said = f"{errors} uncorrectable memory errors since the driver was loaded"
        yield condition("gpu/ecc", said, QUARANTINE, target)
    _corrected, _uncorrected, pending, failed = _ask(nvml, nvml.nvmlDeviceGetRemappedRows, handle) or (0, 0, 0, 0)
    if failed:
        said = "a row of memory could not be remapped; replace the GPU"
        yield condition("gpu/remap-failed", said, QUARANTINE, target)
    elif pending:
        yield condition("gpu/remap-pending", "a row of memory is remapped when the GPU is reset", NOTE, target)
    reasons = _ask(nvml, nvml.nvmlDeviceGetCurrentClocksEventReasons, handle) or 0
    for bit, brake in _BRAKES.items():
        if reasons & bit:
            yield condition(f"gpu/{brake}-brake", f"the hardware reduces the GPU's clocks: {brake}", NOTE, target)
    fabric = nvml.c_nvmlGpuFabricInfo_v2_t()
    _ask(nvml, nvml.nvmlDeviceGetGpuFabricInfoV, handle, ctypes.byref(fabric))
    if fabric.state in _FABRIC_STATES or (fabric.state and fabric.status):
        state = _FABRIC_STATES.get(fabric.state) or nvml.NVMLError(fabric.status)
        effect = NOTE if uptime < _FABRIC_STARTS else QUARANTINE
        yield condition("gpu/fabric", f"not registered with the fabric manager: {state}", effect, target)


def _links(nvml: Any, handle: Any) -> int:
    """Return how many NVLinks are up. A GPU that has no such link answers NotSupported or InvalidArgument."""
    up = 0
    for link in range(nvml.NVML_NVLINK_MAX_LINKS):
        state = _ask(nvml, nvml.nvmlDeviceGetNvLinkState, handle, link)
        if state is None:
            break
        up += state
    return up


def _ask(nvml: Any, call: Callable[..., Any], *args: Any) -> Any:
    """Return what NVML says; None if this GPU or this driver does not offer the call."""
    try:
        return call(*args)
    except nvml.NVMLError as error:
        if error.value not in (nvml.NVML_ERROR_NOT_SUPPORTED, nvml.NVML_ERROR_FUNCTION_NOT_FOUND, _NO_SUCH_LINK):
            raise
        return None
