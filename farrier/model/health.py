"""Whether a node is healthy, and whether it is silent: two pure functions of the same facts.

`healthy` decides every transition to `active`, `silent` the transition from `active` to `offline`. They are not
opposites: stale facts prove nothing and cause no transition. Agents report with `farrier.heartbeat`. The health of an
agentless node (set at registration) comes from fresh reads of its BMC and of MAAS.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from farrier.model.bmc import PowerState


class SshSeed(StrEnum):
    """The result of the SSH seed of cloud-init, as the agent reports it."""

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
    """The last report of an agent. Unknown fields are ignored, because agents are upgraded independently of farrier."""

    ok: bool = True
    alerts: tuple[Alert, ...] = ()
    ssh_seed: SshSeed = SshSeed.UNKNOWN


class Vitals(msgspec.Struct, frozen=True, kw_only=True):
    """The facts that decide whether a node is healthy: `heard` and `blocking` for a node with an agent, the fields
    below them for an agentless node."""

    agentless: bool
    heard: bool = False  # the last heartbeat of the agent is fresh
    blocking: tuple[Alert, ...] = ()  # alerts of the last report that block scheduling
    has_bmc: bool = False
    has_maas: bool = False
    power: PowerState | None = None  # as the BMC reports it; None without a fresh read
    deployed: bool | None = None  # as MAAS reports it; None without a fresh read


class Healthy(msgspec.Struct, frozen=True):
    """The node is proven healthy now."""


class Unhealthy(msgspec.Struct, frozen=True):
    """The node is not proven healthy. `reason` contains no ages, so it does not change from run to run."""

    reason: str


def healthy(vitals: Vitals) -> Healthy | Unhealthy:
    """Whether the node may be `active`."""
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
        return Unhealthy("no fresh read of MAAS reports the machine as deployed")
    return Healthy()


def silent(vitals: Vitals) -> str | None:
    """Why an active node goes offline, or None. An unreachable BMC is no reason, because this failure does not show the
    state of the machine."""
    if vitals.agentless:
        return "a fresh read reports power off" if vitals.power is PowerState.OFF else None
    return None if vitals.heard else "no heartbeat within offline_after"
