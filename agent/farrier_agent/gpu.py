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

_NVIDIA = 0x10DE  # pci.ids
_DISPLAY = (0x0300, 0x0302)  # linux/pci_ids.h: VGA and 3D controllers
_FABRIC_STARTS = 600.0  # seconds after the start of the machine until the fabric has to be ready
# nvml.h: nvmlClocksEventReasonHwThermalSlowdown, nvmlClocksEventReasonHwPowerBrakeSlowdown
_BRAKES = {0x40: "hardware thermal slowdown", 0x80: "hardware power brake"}
_FABRIC_STATES = {1: "not started", 2: "in progress"}


def present(host: Host) -> list[str]:
    """Return the PCI addresses of NVIDIA's GPUs. Source: ABI/testing/sysfs-bus-pci."""
    found = []
    for device in host.glob("/sys/bus/pci/devices/*"):
        if host.number(f"{device}/vendor") == _NVIDIA and (host.number(f"{device}/class") or 0) >> 8 in _DISPLAY:
            found.append(os.path.basename(device).lower())
    return found


def read(host: Host, config: Config) -> dict[str, Any]:
    """Return facts and conditions of the GPUs. Raises AgentError if NVML fails as a whole."""
    on_bus, found = present(host), []
    if config.gpus is not None and len(on_bus) != config.gpus:
        found.append(
            condition("gpu/count", f"{len(on_bus)} GPUs are on the PCI bus, expected {config.gpus}", QUARANTINE)
        )
    if not on_bus:
        return {"facts": {"gpus": [], "driver": None}, "conditions": found}
    import pynvml as nvml

    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        message = f"{len(on_bus)} GPUs are on the PCI bus, but NVML does not start: {error}"
        return {"conditions": [*found, condition("gpu/driver", message, QUARANTINE)]}
    cards = [_Card(nvml, index, float((host.text("/proc/uptime") or "0").split()[0])) for index in range(_count(nvml))]
    seen = {card.pci for card in cards}
    for pci in on_bus:
        if pci not in seen and not any(card.pci is None for card in cards):
            found.append(
                condition("gpu/lost", f"GPU {pci} is on the PCI bus, but NVML does not list it", QUARANTINE, pci)
            )
    found += [each for card in cards for each in card.found]
    most = max((card.links for card in cards), default=0)
    found += [
        condition("gpu/nvlink", f"{card.links} NVLinks are up, {most} on other GPUs", QUARANTINE, card.target)
        for card in cards
        if card.links < most and not card.is_lost
    ]
    driver = _ask(nvml, nvml.nvmlSystemGetDriverVersion)
    return {"facts": {"gpus": [card.facts for card in cards if card.facts], "driver": driver}, "conditions": found}


def used(host: Host) -> list[str]:
    """Return a text for each process that computes on a GPU. A lost GPU, and one without driver, runs no process."""
    if not present(host):
        return []
    import pynvml as nvml

    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        if error.value in (nvml.NVML_ERROR_DRIVER_NOT_LOADED, nvml.NVML_ERROR_LIBRARY_NOT_FOUND):
            return []
        raise AgentError(f"NVML does not tell which processes use the GPUs: {error}") from None
    busy = []
    for index in range(_count(nvml)):
        try:
            card = nvml.nvmlDeviceGetHandleByIndex(index)
            busy += [f"process {each.pid} on GPU {index}" for each in nvml.nvmlDeviceGetComputeRunningProcesses(card)]
        except nvml.NVMLError as error:
            if error.value != nvml.NVML_ERROR_GPU_IS_LOST:
                raise AgentError(f"NVML does not tell which processes use GPU {index}: {error}") from None
    return busy


class _Card:
    """One GPU: its facts, its conditions, and the number of NVLinks that are up."""

    def __init__(self, nvml: Any, index: int, uptime: float) -> None:
        self.pci: str | None = None
        self.target = f"GPU {index}"
        self.facts: dict[str, Any] = {}
        self.found: list[Condition] = []
        self.links = 0
        self.is_lost = False
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            self._describe(nvml, handle)
            self.found = list(_judged(nvml, handle, self.target, uptime))
            self.links = _links(nvml, handle)
        except nvml.NVMLError as error:
            self.is_lost = True
            id_ = "gpu/lost" if error.value == nvml.NVML_ERROR_GPU_IS_LOST else "gpu/nvml"
            self.found.append(condition(id_, f"NVML does not reach {self.target}: {error}", QUARANTINE, self.target))

    def _describe(self, nvml: Any, handle: Any) -> None:
        info = _ask(nvml, nvml.nvmlDeviceGetPciInfo, handle)
        if info is not None:  # sysfs writes the domain with four digits
            self.pci = f"{info.domain:04x}:{info.bus:02x}:{info.device:02x}.0"
        serial = _ask(nvml, nvml.nvmlDeviceGetSerial, handle)
        uuid = _ask(nvml, nvml.nvmlDeviceGetUUID, handle)
        self.target = serial or uuid or self.target
        self.facts = {
            "slot": self.pci, "uuid": uuid, "serial": serial, "model": _ask(nvml, nvml.nvmlDeviceGetName, handle),
            "firmware": _ask(nvml, nvml.nvmlDeviceGetVbiosVersion, handle),
        }  # fmt: skip


def _judged(nvml: Any, handle: Any, target: str, uptime: float) -> Iterator[Condition]:
    errors = _ask(
        nvml, nvml.nvmlDeviceGetTotalEccErrors, handle, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC
    )
    if errors:
        yield condition(
            "gpu/ecc", f"{errors} uncorrectable memory errors since the driver was loaded", QUARANTINE, target
        )
    _corrected, _uncorrected, pending, failed = _ask(nvml, nvml.nvmlDeviceGetRemappedRows, handle) or (0, 0, 0, 0)
    if failed:
        yield condition(
            "gpu/remap-failed", "a row of memory could not be remapped; replace the GPU", QUARANTINE, target
        )
    elif pending:
        yield condition("gpu/remap-pending", "a row of memory is remapped when the GPU is reset", NOTE, target)
    reasons = _ask(nvml, nvml.nvmlDeviceGetCurrentClocksEventReasons, handle) or 0
    for bit, brake in _BRAKES.items():
        if reasons & bit:
            yield condition(f"gpu/{brake.split()[1]}-brake", f"the GPU's clocks are reduced: {brake}", NOTE, target)
    fabric = nvml.c_nvmlGpuFabricInfo_v2_t()
    if _ask(nvml, nvml.nvmlDeviceGetGpuFabricInfoV, handle, ctypes.byref(fabric)) is not None and fabric.state:
        if fabric.state in _FABRIC_STATES:
            effect = QUARANTINE if uptime > _FABRIC_STARTS else NOTE
            said = f"the GPU is not registered with the fabric manager: {_FABRIC_STATES[fabric.state]}"
            yield condition("gpu/fabric", said, effect, target)
        elif fabric.status:
            said = f"the registration with the fabric manager failed: {nvml.NVMLError(fabric.status)}"
            yield condition("gpu/fabric", said, QUARANTINE, target)


def _links(nvml: Any, handle: Any) -> int:
    """Return how many NVLinks are up. A GPU that has no such link answers NotSupported or InvalidArgument."""
    up = 0
    for link in range(nvml.NVML_NVLINK_MAX_LINKS):
        state = _ask(nvml, nvml.nvmlDeviceGetNvLinkState, handle, link)
        if state is None:
            break
        up += state
    return up


def _count(nvml: Any) -> int:
    return _ask(nvml, nvml.nvmlDeviceGetCount) or 0


def _ask(nvml: Any, call: Callable[..., Any], *args: Any) -> Any:
    """Return what NVML says; None if this GPU or this driver does not offer the call."""
    try:
        return call(*args)
    except nvml.NVMLError as error:
        if error.value in (
            nvml.NVML_ERROR_NOT_SUPPORTED,
            nvml.NVML_ERROR_FUNCTION_NOT_FOUND,
            nvml.NVML_ERROR_INVALID_ARGUMENT,
        ):
            return None
        raise
