"""Finds out from the traces in MAAS why a deployment failed. The function is pure and total; its rules are a table.

The stages for a failed deployment use this module, and so does the stage that waits for the agent. The evidence quotes
MAAS, so that an operator can find the quoted text in MAAS. A rule examines the events since the request of the
deployment, the progress of the installer, and the machine's state. The first rule that finds evidence determines the
cause.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import TypeAlias

import msgspec
from typing_extensions import override

from farrier.model.maas.reading import Event, MaasStatus, Machine
from farrier.model.maas.scripts import ScriptSet


class DeployCause(StrEnum):
    """The causes of a failed deployment, in order from power on to the first boot of the installed system."""

    POWER = "power"
    NO_NETBOOT = "no_netboot"
    DATASOURCE = "datasource"
    STORAGE = "storage"
    INSTALL = "install"
    NEVER_REPORTED = "never_reported"
    POST_INSTALL = "post_install"
    UNKNOWN = "unknown"


MEANING: Mapping[DeployCause, str] = {
    DeployCause.POWER: "MAAS could not switch the machine's power",
    DeployCause.NO_NETBOOT: "the machine did not boot from the network; check its boot order, boot interface and DHCP",
    DeployCause.DATASOURCE: "the installer started, but did not receive its data from MAAS",
    DeployCause.STORAGE: "the installer could not set up the disks",
    DeployCause.INSTALL: "the installer failed to write or configure the image",
    DeployCause.NEVER_REPORTED: (
        "the machine was installed, but the installed system did not report to MAAS; check its boot order and the "
        "names of its interfaces"
    ),
    DeployCause.POST_INSTALL: "the machine was installed, but cloud-init failed in the installed system",
    DeployCause.UNKNOWN: "the events in MAAS do not show the cause",
}


class DeployFailure(msgspec.Struct, frozen=True, kw_only=True):
    """The cause of a failed deployment, and the event or error in MAAS that shows this cause."""

    cause: DeployCause
    evidence: str

    @override
    def __str__(self) -> str:
        return f"{self.cause}: {MEANING[self.cause]} ({self.evidence})"


class _Trace(msgspec.Struct, frozen=True, kw_only=True):
    """The traces of one deployment, the oldest event first. `error` is the error that MAAS reports, or empty."""

    events: tuple[Event, ...]
    state: MaasStatus
    error: str
    installed: bool

    def first(self, *types: str, said: str = "") -> Event | None:
        return next((event for event in self.events if event.type in types and said in (event.description or "")), None)

    def last(self, *types: str, said: str = "") -> Event | None:
        found = [event for event in self.events if event.type in types and said in (event.description or "")]
        return found[-1] if found else None


_Rule: TypeAlias = Callable[[_Trace], str | None]

START = "User starting deployment"
"""MAAS's event for a requested deployment. It contains the comment of the request."""

_POWER_FAILED = ("Failed to power on node", "Failed to power cycle node", "Failed to query node's BMC")
_BOOTED = ("PXE Request", "TFTP Request", "HTTP Request", "Performing PXE boot", "Loading ephemeral")
_INSTALLING = "Node installation"
_INSTALL_FAILED = "Node installation failure"
_POST_FAILED = "Node post-installation failure"
_MARKED = "Marking node failed"
# The outermost step of the installer: it fails whenever a step inside fails, and does not name that step.
_OUTERMOST = "'curtin' curtin command install"
_STORAGE_WORDS = ("storage", "partition")
_TIMED_OUT = ("time-out", "timed out", "timeout")
# Largest number of characters of the evidence: one or two sentences of MAAS. The text of a driver may fill a page.
_LONGEST_WORDS = 200


def classify(
    machine: Machine, events: Sequence[Event], scripts: Sequence[ScriptSet] = (), *, comment: str = ""
) -> DeployFailure:
    """Return why the deployment with this comment failed or is stuck. `scripts` are those of the installation."""
    newest = max(scripts, key=lambda kept: kept.id, default=None)
    since = _since(events, comment)
    trace = _Trace(
        events=since,
        state=machine.state,
        error=_error(machine, since),
        installed=newest is not None and newest.status_name == "Passed",
    )
    for cause, rule in RULES:
        evidence = rule(trace)
        if evidence is not None:
            return DeployFailure(cause=cause, evidence=evidence[:_LONGEST_WORDS])
    return DeployFailure(cause=DeployCause.UNKNOWN, evidence=trace.error[:_LONGEST_WORDS] or "no event, no error")


def post_install(events: Sequence[Event], *, comment: str) -> str | None:
    """Return the failure of the first boot, or None. MAAS reports the machine as deployed despite this failure."""
    failed = [event for event in _since(events, comment) if event.type == _POST_FAILED]
    return _words(failed[0])[:_LONGEST_WORDS] if failed else None


def _since(events: Sequence[Event], comment: str) -> tuple[Event, ...]:
    """Return the events since farrier's own request for a deployment. Without such a request, return the events since
    the last request of any user; without any request, return all events."""
    ordered = sorted(events, key=lambda event: event.id)
    starts = [place for place, event in enumerate(ordered) if event.type == START]
    ours = [place for place in starts if ordered[place].carries(comment)]
    begin = (ours or starts or [0])[-1]
    return tuple(ordered[begin:])


def _error(machine: Machine, since: Sequence[Event]) -> str:
    if machine.state is MaasStatus.FAILED and machine.error_description:
        return machine.error_description
    marked = [event.description or "" for event in since if event.type == _MARKED]
    return marked[-1] if marked else ""


def _words(event: Event) -> str:
    return f"{event.type}: {event.description}" if event.description else event.type


def _is_storage(event: Event) -> bool:
    return any(word in (event.description or "") for word in _STORAGE_WORDS)


def _first_boot_failed(trace: _Trace) -> str | None:
    failed = trace.first(_POST_FAILED)
    return _words(failed) if failed is not None and trace.state is MaasStatus.DEPLOYED else None


def _without_power(trace: _Trace) -> str | None:
    """Return evidence of a power failure after which the machine did not boot."""
    failed, booted = trace.last(*_POWER_FAILED), trace.last(*_BOOTED)
    return _words(failed) if failed is not None and (booted is None or booted.id < failed.id) else None


def _cloud_init_failed(trace: _Trace) -> str | None:
    failed = trace.first(_INSTALL_FAILED, said="'cloudinit'")
    return _words(failed) if failed is not None else None


def _curtin_failed(trace: _Trace) -> Event | None:
    """Return the innermost step that failed; if MAAS reports only the outermost step as failed, the last step."""
    failed = [
        event for event in trace.events if event.type == _INSTALL_FAILED and "'curtin'" in (event.description or "")
    ]
    inner = next((event for event in failed if event.description != _OUTERMOST), None)
    return inner or (_last_step(trace) if failed else None)


def _last_step(trace: _Trace) -> Event | None:
    return trace.last(_INSTALLING, said="'curtin'")


def _disks_failed(trace: _Trace) -> str | None:
    failed = _curtin_failed(trace)
    return _words(failed) if failed is not None and _is_storage(failed) else None


def _image_failed(trace: _Trace) -> str | None:
    failed = _curtin_failed(trace)
    return _words(failed) if failed is not None else None


def _never_booted(trace: _Trace) -> str | None:
    """Return evidence that the machine did not boot. If the error is not a timeout, the cause is a different one."""
    if trace.first(*_BOOTED, _INSTALLING) is not None or not trace.events:
        return None
    if trace.error and not any(word in trace.error.lower() for word in _TIMED_OUT):
        return None
    return trace.error or "no request for a network boot"


def _never_reported(trace: _Trace) -> str | None:
    passed = trace.first("Script result", said="install.log changed status from 'Running' to 'Passed'")
    rebooted = trace.first("Rebooting")
    if passed is None and rebooted is None and not trace.installed:
        return None
    return trace.error or "the installer had finished"


def _stuck_at_disks(trace: _Trace) -> str | None:
    step = _last_step(trace)
    return (
        f"{_words(step)}; {trace.error or 'MAAS reports no error'}" if step is not None and _is_storage(step) else None
    )


def _stuck_in_installer(trace: _Trace) -> str | None:
    step = _last_step(trace)
    return f"{_words(step)}; {trace.error or 'MAAS reports no error'}" if step is not None else None


def _never_installed(trace: _Trace) -> str | None:
    """Return evidence that the machine booted, but that the installer did not begin."""
    seen = trace.last(_INSTALLING) or trace.last(*_BOOTED)
    return f"{_words(seen)}; {trace.error or 'MAAS reports no error'}" if seen is not None else None


RULES: tuple[tuple[DeployCause, _Rule], ...] = (
    (DeployCause.POST_INSTALL, _first_boot_failed),
    (DeployCause.POWER, _without_power),
    (DeployCause.DATASOURCE, _cloud_init_failed),
    (DeployCause.STORAGE, _disks_failed),
    (DeployCause.INSTALL, _image_failed),
    (DeployCause.NO_NETBOOT, _never_booted),
    (DeployCause.NEVER_REPORTED, _never_reported),
    (DeployCause.STORAGE, _stuck_at_disks),
    (DeployCause.INSTALL, _stuck_in_installer),
    (DeployCause.DATASOURCE, _never_installed),
)
"""The rules in order: first those for events that name a cause, last those that conclude a cause from missing
events."""
