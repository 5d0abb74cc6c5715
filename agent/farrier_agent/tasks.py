"""The tasks of the machine's own node. Each runs in a process of its own while heartbeats continue."""

from __future__ import annotations

import json
import os
import stat
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Callable

from farrier_agent import disks, gpu, install, scrub, wipe
from farrier_agent.host import STATE, AgentError, Config, Host, tool
from farrier_agent.jobs import finished

UNINSTALL = "node.uninstall"
_PAUSE = 5.0  # seconds between two readings
_CHECK_TIMEOUT = 600.0  # seconds in which the samples of a disk are read, or the memory of a GPU is overwritten
_ERASED = "erased"  # file below STATE: serial numbers of the disks that were to be erased since the last drain
_OF_SYSTEM = {"result": "unproven", "message": "the system runs from this disk, so it was not erased"}
_NOT_ERASED = {"result": "unproven", "message": "no task has erased it since the last drain"}
_GONE = {"result": "missing", "message": "it was erased, and is not there now"}
_FAILED = {"method": "", "result": "failed", "samples": 0, "bad_samples": 0, "seconds": 0.0, "message": ""}

Steps = Mapping[str, Callable[[], Any]]  # what cleans or reads a device, by its serial number


def outcome(succeeded: bool, result: str, devices: Sequence[Mapping[str, Any]] | None = None) -> dict[str, Any]:
    """Return the result of a task as the API takes it."""
    evidence = None if devices is None else {"by": "agent", "devices": devices}
    return {"succeeded": succeeded, "result": result[:1000], "evidence": evidence}


def types(config: Config) -> list[str]:
    """Return the task types to claim. Cleaning that a worker does is left to the worker."""
    return [each for each in TASKS if each not in CLEANING or config.cleaning_by != "worker"]


def perform(host: Host, config: Config, type_: str) -> dict[str, Any]:
    """Perform a task, in a process of its own. An error is the outcome's one line."""
    if type_ in CLEANING and config.cleaning_by != "agent":
        return outcome(False, 'the agent does not clean this machine: cleaning_by of config.json is not "agent"')
    return TASKS[type_](host, config)


def limit(config: Config, type_: str) -> float:
    """Return the seconds after which a task is killed; its own limits are shorter."""
    return config.drain_seconds + 300 if type_ not in CLEANING else config.wipe_seconds * 4 + 3600


def _release(host: Host, config: Config) -> dict[str, Any]:
    ran = _hooks(host, "release.d", time.monotonic() + config.drain_seconds)
    return outcome(True, f"{ran} programs of release.d succeeded")


def _drain(host: Host, config: Config) -> dict[str, Any]:
    """Run the site's programs, and wait until no process uses a GPU."""
    ends_at = time.monotonic() + config.drain_seconds
    host.keep(_ERASED, "[]")
    ran = _hooks(host, "drain.d", ends_at)
    while True:
        busy = gpu.used(host)
        if not busy:
            return outcome(True, f"{ran} programs of drain.d succeeded; no process uses a GPU")
        if time.monotonic() + _PAUSE > ends_at:
            return outcome(False, f"GPUs are still in use after {config.drain_seconds:.0f} s: {', '.join(busy[:5])}")
        time.sleep(_PAUSE)


def _hooks(host: Host, directory: str, ends_at: float) -> int:
    """Run the executables of a directory in the order of their names. Raises AgentError if one fails."""
    ran = 0
    for path in host.glob(f"/etc/farrier-agent/{directory}/*"):
        where, name = os.stat(host.path(path)), f"{directory}/{os.path.basename(path)}"
        if not stat.S_ISREG(where.st_mode) or not where.st_mode & stat.S_IXUSR:
            continue
        if where.st_mode & stat.S_IWOTH or where.st_uid not in (0, os.geteuid()):
            raise AgentError(f"{name} must belong to root, and others must not be able to write it")
        tool(host.path(path), timeout=max(ends_at - time.monotonic(), 1))
        ran += 1
    return ran


def _cleanup(host: Host, config: Config) -> dict[str, Any]:
    """Erase every disk but those from which the system runs."""
    system, serials = disks.of_system(host), disks.serials(host)
    steps = {serials[name]: partial(wipe.erase, host, config, name) for name in serials if name not in system}
    left = {serials[name]: _OF_SYSTEM for name in serials if name in system}
    host.keep(_ERASED, json.dumps(list(steps)))
    return _evidence("disk", steps, config.wipe_seconds * len(config.wipe) + _CHECK_TIMEOUT, left)


def _scrub(host: Host, config: Config) -> dict[str, Any]:
    """Overwrite the memory of every GPU."""
    _check_idle(host)
    read = gpu.read(host, config)
    cards = read.get("facts", {}).get("gpus", [])
    if len(cards) < max(len(gpu.present(host)), config.gpus):
        raise AgentError("; ".join(each["message"] for each in read["conditions"]))
    steps = {card["serial"]: partial(scrub.scrub, card["uuid"]) for card in cards}
    return _evidence("gpu", steps, _CHECK_TIMEOUT, {})


def _validate(host: Host, _config: Config) -> dict[str, Any]:
    """Read the disks that were to be erased since the last drain, and check that no process uses a GPU."""
    _check_idle(host)
    names = {serial: name for name, serial in disks.serials(host).items()}
    erased = json.loads(host.text(f"{STATE}/{_ERASED}") or "[]")
    steps = {serial: partial(wipe.check, host, names[serial], []) for serial in erased if serial in names}
    others = {**dict.fromkeys(names, _NOT_ERASED), **dict.fromkeys(erased, _GONE)}
    return _evidence("disk", steps, _CHECK_TIMEOUT, others)


def _uninstall(host: Host, _config: Config) -> dict[str, Any]:
    install.uninstall(host)
    return outcome(True, "the agent is removed")


def _check_idle(host: Host) -> None:
    busy = gpu.used(host)
    if busy:
        raise AgentError(f"GPUs are in use: {', '.join(busy[:5])}")


def _evidence(kind: str, steps: Steps, longest: float, others: Mapping[str, Any]) -> dict[str, Any]:
    """Clean or read devices side by side, and return the evidence. A device that hangs has failed, and delays no other.

    `steps` are by serial number, and so is what is known of `others`, which have no step.
    """
    found = dict(others)
    for serial, job in zip(steps, finished([(call, longest) for call in steps.values()])):
        found[serial] = {"seconds": round(job.seconds, 1), **(job.result or {"message": str(job.error)[:500]})}
    devices = [{"serial": serial, "kind": kind, **_FAILED, **each} for serial, each in found.items()]
    counts = Counter(each["result"] for each in devices)
    said = ", ".join(f"{count} {result}" for result, count in sorted(counts.items())) or "none"
    bad = [each for each in devices if each["result"] in ("failed", "missing")]
    wrong = [f"{kind} {each['serial']}: {each['message']}" for each in bad]
    return outcome(not bad, "; ".join([f"{kind}s: {said}", *wrong]), devices)


TASKS: Mapping[str, Callable[[Host, Config], dict[str, Any]]] = {
    "node.release_allocations": _release,
    "node.drain": _drain,
    "node.cleanup_storage": _cleanup,
    "node.scrub_gpu": _scrub,
    "node.validate_clean": _validate,
    UNINSTALL: _uninstall,
}
CLEANING = frozenset({"node.cleanup_storage", "node.scrub_gpu", "node.validate_clean"})
