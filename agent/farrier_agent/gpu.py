"""GPUs, read by NVML, through NVIDIA's own nvidia-ml-py. A call of NVML can hang, so this runs in a process of its own.

Sources: nvml.h for each call; NVIDIA, GPU Deployment: GPU Memory Error Management (row remapping, SRAM errors);
DCGM's health checks (a volatile uncorrectable error, a lost NVLink and a failed remapping are failures).
"""

from __future__ import annotations

import ctypes
import os
from itertools import takewhile
from typing import Any, Callable

import pynvml as nvml

from farrier_agent.conditions import NOTE, QUARANTINE, Condition, condition
from farrier_agent.host import AgentError, Config, Host
from farrier_agent.system import liveness

_NVIDIA = 0x10DE  # pci.ids
_DISPLAY = (0x0300, 0x0302)  # linux/pci_ids.h: VGA and 3D controllers
_FABRIC_STARTS = 600.0  # seconds after the start of the machine until the fabric has to be ready
_UNCORRECTED = (nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC)
_THERMAL, _POWER = nvml.nvmlClocksEventReasonHwThermalSlowdown, nvml.nvmlClocksEventReasonHwPowerBrakeSlowdown
_FABRIC_STATES = {1: "not started", 2: "in progress"}


def present(host: Host) -> list[str]:
    """Return the PCI addresses of NVIDIA's GPUs. Source: ABI/testing/sysfs-bus-pci."""
    devices = host.glob("/sys/bus/pci/devices/*")
    nvidia = [device for device in devices if host.number(f"{device}/vendor") == _NVIDIA]
    return [os.path.basename(path).lower() for path in nvidia if (host.number(f"{path}/class") or 0) >> 8 in _DISPLAY]


def read(host: Host, config: Config) -> dict[str, Any]:
    """Return facts and conditions of the GPUs."""
    on_bus, found = present(host), []
    said = f"{len(on_bus)} GPUs are on the PCI bus"
    if config.gpus and len(on_bus) != config.gpus:
        found.append(condition("gpu/count", f"{said}, expected {config.gpus}", QUARANTINE))
    if not on_bus:
        return {"facts": {"gpus": [], "driver": None}, "conditions": found}
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        said = f"{said}, but NVML does not start: {error}"
        return {"conditions": [*found, condition("gpu/driver", said, QUARANTINE)]}
    cards: list[dict[str, Any]] = []
    links, failed = {}, []
    for index in range(nvml.nvmlDeviceGetCount()):
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            card = _facts(handle)
            if any(card["serial"] == each["serial"] for each in cards):  # the GPUs of one board share its number
                card["serial"] += f"/{card['slot']}"
            links[card["serial"]] = _links(handle)
            found += _judged(handle, card["serial"], liveness(host)["uptime"])
            cards.append(card)
        except nvml.NVMLError as error:
            failed.append(f"GPU {index}: {error}")
    why = "; ".join(failed) or "it does not list this GPU"
    for pci in sorted({*on_bus} - {card["slot"] for card in cards}):
        found.append(condition("gpu/lost", f"NVML does not reach {pci}: {why}", QUARANTINE, pci))
    most = max(links.values(), default=0)
    for target, up in links.items():
        if up < most:
            found.append(condition("gpu/nvlink", f"{up} NVLinks are up, {most} on other GPUs", QUARANTINE, target))
    return {"facts": {"gpus": cards, "driver": _ask(nvml.nvmlSystemGetDriverVersion)}, "conditions": found}


def used(host: Host) -> list[str]:
    """Return a text for each process that computes on a GPU. A lost GPU, and one without driver, runs no process."""
    if not present(host):
        return []
    busy = []
    try:
        nvml.nvmlInit()
        for index in range(nvml.nvmlDeviceGetCount()):
            try:
                processes = nvml.nvmlDeviceGetComputeRunningProcesses(nvml.nvmlDeviceGetHandleByIndex(index))
                busy += [f"process {each.pid} on GPU {index}" for each in processes]
            except nvml.NVMLError_GpuIsLost:
                pass
    except (nvml.NVMLError_DriverNotLoaded, nvml.NVMLError_LibraryNotFound):
        pass
    except nvml.NVMLError as error:
        raise AgentError(f"NVML does not tell which processes use the GPUs: {error}") from None
    return busy


def _facts(handle: Any) -> dict[str, Any]:
    place = nvml.nvmlDeviceGetPciInfo(handle)
    return {
        "slot": f"{place.domain:04x}:{place.bus:02x}:{place.device:02x}.0",  # sysfs writes the domain with four digits
        "uuid": nvml.nvmlDeviceGetUUID(handle),
        "serial": _ask(nvml.nvmlDeviceGetSerial, handle) or nvml.nvmlDeviceGetUUID(handle),
        "model": _ask(nvml.nvmlDeviceGetName, handle),
        "firmware": _ask(nvml.nvmlDeviceGetVbiosVersion, handle),
    }


def _judged(handle: Any, target: str, uptime: float) -> list[Condition]:
    errors = _ask(nvml.nvmlDeviceGetTotalEccErrors, handle, *_UNCORRECTED) or 0
    _, _, pending, failed = _ask(nvml.nvmlDeviceGetRemappedRows, handle) or (0, 0, 0, 0)
    reasons = _ask(nvml.nvmlDeviceGetCurrentClocksEventReasons, handle) or 0
    fabric = nvml.c_nvmlGpuFabricInfo_v2_t()
    _ask(nvml.nvmlDeviceGetGpuFabricInfoV, handle, ctypes.byref(fabric))
    state = _FABRIC_STATES.get(fabric.state) or nvml.NVMLError(fabric.status)
    is_alone = fabric.state in _FABRIC_STATES or (fabric.state and fabric.status)
    late = QUARANTINE if uptime > _FABRIC_STARTS else NOTE
    rules = (
        ("gpu/ecc", errors, QUARANTINE, f"{errors} uncorrectable memory errors since the driver was loaded"),
        ("gpu/remap-failed", failed, QUARANTINE, "a row of memory could not be remapped; replace the GPU"),
        ("gpu/remap-pending", pending and not failed, NOTE, "a row of memory is remapped when the GPU is reset"),
        ("gpu/thermal-brake", reasons & _THERMAL, NOTE, "the hardware reduces the GPU's clocks: thermal"),
        ("gpu/power-brake", reasons & _POWER, NOTE, "the hardware reduces the GPU's clocks: power"),
        ("gpu/fabric", is_alone, late, f"not registered with the fabric manager: {state}"),
    )
    return [condition(id_, said, effect, target) for id_, holds, effect, said in rules if holds]


def _links(handle: Any) -> int:
    """Return how many NVLinks are up. A GPU that has no such link answers NotSupported or InvalidArgument."""
    states = (_ask(nvml.nvmlDeviceGetNvLinkState, handle, link) for link in range(nvml.NVML_NVLINK_MAX_LINKS))
    return sum(takewhile(lambda state: state is not None, states))


def _ask(call: Callable[..., Any], *args: Any) -> Any:
    """Return what NVML says; None if this GPU or this driver does not offer the call."""
    try:
        return call(*args)
    except (nvml.NVMLError_NotSupported, nvml.NVMLError_FunctionNotFound, nvml.NVMLError_InvalidArgument):
        return None
