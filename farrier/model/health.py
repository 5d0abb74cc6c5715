"""Is the node healthy, and is it silent? Two pure functions over one set of facts.

`healthy` decides every move into `active`, `silent` the move from `active` to `offline`. They are not
opposites: facts that are stale prove nothing either way and move nothing. Agents report with
`farrier.heartbeat`; a node without an agent (said at registration) is judged by fresh reads of its BMC and of
MAAS.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from farrier.model.bmc import PowerState


class SshSeed(StrEnum):
    """What the agent says of the SSH seed that cloud-init was to plant."""

    OK = "ok"
    FAILED = "failed"
    UNKNOWN = "unknown"


SSH_SEED_LIMIT = 3
"""Number of consecutive failed SSH seeds after which the stage needs an operator."""


class Alert(msgspec.Struct, frozen=True):
    id: str
    message: str = ""
    blocks_scheduling: bool = False


class Health(msgspec.Struct, frozen=True):
    """An agent's last report. Unknown fields are ignored: agents are upgraded on their own schedule."""

    ok: bool = True
    alerts: tuple[Alert, ...] = ()
    ssh_seed: SshSeed = SshSeed.UNKNOWN


class Vitals(msgspec.Struct, frozen=True, kw_only=True):
    """What decides whether a node is healthy: of one with an agent `heard` and `blocking`, else the fields below."""

    agentless: bool
    heard: bool = False  # its agent's last heartbeat is fresh
    blocking: tuple[Alert, ...] = ()  # alerts of the last report that keep it from being scheduled
    has_bmc: bool = False
    has_maas: bool = False
    power: PowerState | None = None  # what its BMC says, if that is fresh; None: nothing fresh
    deployed: bool | None = None  # what MAAS says, if that is fresh; None: nothing fresh


class Healthy(msgspec.Struct, frozen=True):
    """Proven healthy now."""


class Unhealthy(msgspec.Struct, frozen=True):
    """Not proven healthy; the text holds no ages, so it is the same from run to run."""

    reason: str


def healthy(vitals: Vitals) -> Healthy | Unhealthy:
    """May the node be `active`?"""
    if vitals.agentless:
        return _healthy_by_reads(vitals)
    if not vitals.heard:
        return Unhealthy("no heartbeat within offline_after")
    if vitals.blocking:
        return Unhealthy(f"alerts block scheduling: {', '.join(alert.id for alert in vitals.blocking)}")
    return Healthy()


def _healthy_by_reads(vitals: Vitals) -> Healthy | Unhealthy:
    if not vitals.has_bmc:
        return Unhealthy("the node has neither an agent nor a BMC, so its health cannot be proven")
    if vitals.power is None:
        return Unhealthy("no fresh read of the BMC's power state")
    if vitals.power is not PowerState.ON:
        return Unhealthy(f"power is {vitals.power}")
    if vitals.has_maas and not vitals.deployed:
        return Unhealthy("no fresh read of MAAS reports it as deployed")
    return Healthy()


def silent(vitals: Vitals) -> str | None:
    """Why an active node goes offline, or None. An unreachable BMC is no reason, because it does not show the
    state of the machine."""
    if vitals.agentless:
        return "a fresh read reports power off" if vitals.power is PowerState.OFF else None
    return None if vitals.heard else "no heartbeat within offline_after"
