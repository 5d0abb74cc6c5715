"""The tasks of the machine's own node. Each runs in a process of its own while heartbeats continue."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Callable

from farrier_agent import disks, gpu, install, scrub, wipe
from farrier_agent.host import AgentError, Config, Host, tool
from farrier_agent.jobs import finished
from farrier_agent.state import State

DIRECTORY = "/etc/farrier-agent"
UNINSTALL = "node.uninstall"
_KEPT = {"result": "unproven", "message": "the system runs from this disk, so it was not erased"}
_PAUSE = 5.0  # seconds between two readings
_CHECK_TIMEOUT = 600.0  # seconds in which the samples of a disk are read

Outcome = dict[str, Any]


def outcome(succeeded: bool, result: str, devices: list[dict[str, Any]] | None = None) -> Outcome:
    """Return the result of a task as the API takes it."""
    evidence = None if devices is None else {"by": "agent", "devices": devices}
    return {"succeeded": succeeded, "result": result[:1000], "evidence": evidence}


def types(config: Config) -> list[str]:
    """Return the task types to claim. Cleaning that a worker does is left to the worker."""
    return [each for each in TASKS if each not in CLEANING or config.cleaning_by != "worker"]


def perform(host: Host, config: Config, type_: str) -> Outcome:
    """Perform a task, in a process of its own. An error is the outcome's one line."""
    if type_ in CLEANING and config.cleaning_by != "agent":
        return outcome(False, 'the agent does not clean this machine: cleaning_by of config.json is not "agent"')
    return TASKS[type_](host, config)


def limit(config: Config, type_: str) -> float:
    """Return the seconds after which a task is killed; its own limits are shorter."""
    return config.drain_seconds + 300 if type_ not in CLEANING else config.wipe_seconds * 4 + 3600


def _release(host: Host, config: Config) -> Outcome:
    ran = _hooks(host, "release.d", time.monotonic() + config.drain_seconds)
    return outcome(True, f"{ran} programs of release.d succeeded")


def _drain(host: Host, config: Config) -> Outcome:
    """Run the site's programs, and wait until no process uses a GPU."""
    ends_at = time.monotonic() + config.drain_seconds
    State(host).clean([])
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
    for path in host.glob(f"{DIRECTORY}/{directory}/*"):
        where, name = os.stat(host.path(path)), f"{directory}/{os.path.basename(path)}"
        if not stat.S_ISREG(where.st_mode) or not where.st_mode & stat.S_IXUSR:
            continue
        if where.st_mode & stat.S_IWOTH or where.st_uid not in (0, os.geteuid()):
            raise AgentError(f"{name} must belong to root, and others must not be able to write it")
        tool(host.path(path), timeout=max(ends_at - time.monotonic(), 1))
        ran += 1
    return ran


def _cleanup(host: Host, config: Config) -> Outcome:
    """Erase every disk but those from which the system runs, side by side."""
    system = disks.of_system(host)
    names = [name for name in disks.names(host) if name not in system]
    longest = config.wipe_seconds * len(config.wipe) + _CHECK_TIMEOUT
    State(host).clean([disks.serial(host, name) for name in names])
    return _judged(host, _each([(name, partial(wipe.erase, host, config, name)) for name in names], host, longest))


def _scrub(host: Host, config: Config) -> Outcome:
    return _judged(host, scrub.scrub(host, config))


def _validate(host: Host, config: Config) -> Outcome:
    """Read the disks that were to be erased since the last drain, and check that no process uses a GPU."""
    names = {disks.serial(host, name): name for name in disks.names(host)}
    expected = State(host).cleaned()
    missing = [serial for serial in expected if serial not in names]
    if missing:
        return outcome(False, f"disks that were erased are missing: {', '.join(missing)}", [])
    busy = gpu.used(host)
    if busy:
        return outcome(False, f"GPUs are in use: {', '.join(busy[:5])}", [])
    checks = [(names[serial], partial(wipe.check, host, names[serial])) for serial in expected]
    return _judged(host, _each(checks, host, _CHECK_TIMEOUT))


def _uninstall(host: Host, _config: Config) -> Outcome:
    install.uninstall(host)
    return outcome(True, "the agent is removed")


def _each(calls: Sequence[tuple[str, Callable[[], Any]]], host: Host, longest: float) -> list[dict[str, Any]]:
    """Return the evidence of each disk; a disk that hangs has failed, and does not delay the others."""
    jobs = finished([(call, longest) for _, call in calls])
    return [
        job.result or wipe.device(disks.serial(host, name), "disk", seconds=longest, message=job.error or "no result")
        for (name, _), job in zip(calls, jobs)
    ]


def _judged(host: Host, devices: list[dict[str, Any]]) -> Outcome:
    """Return the outcome, with what was left: the disks of the system."""
    wrong = [f"{each['kind']} {each['serial']}: {each['message']}" for each in devices if each["result"] == "failed"]
    kept = sorted(disks.of_system(host) & set(disks.names(host)))
    said = f"{len(devices) - len(wrong)} of {len(devices)} devices erased, {len(kept)} left as the system's own"
    left = [wipe.device(disks.serial(host, name), "disk", **_KEPT) for name in kept]
    return outcome(not wrong, "; ".join([said, *wrong]), [*devices, *left])


TASKS: Mapping[str, Callable[[Host, Config], Outcome]] = {
    "node.release_allocations": _release,
    "node.drain": _drain,
    "node.cleanup_storage": _cleanup,
    "node.scrub_gpu": _scrub,
    "node.validate_clean": _validate,
    UNINSTALL: _uninstall,
}
CLEANING = frozenset({"node.cleanup_storage", "node.scrub_gpu", "node.validate_clean"})
