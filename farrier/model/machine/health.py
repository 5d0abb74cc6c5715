"""Pure functions of the same facts: whether a node is healthy, and whether it is silent or switched off.

`unproven` decides every transition to `active`; `silent` and `off` decide the transition from `active` to `offline`.
For some nodes, none of them is true, because stale facts prove nothing and cause no transition. Agents report with
`farrier.heartbeat`. For a node that was registered as agentless, the facts are fresh reads of its BMC and of MAAS.
"""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum

import msgspec

from farrier.model.machine.bmc import PowerState
from farrier.model.node.conditions import Condition


class SshSeed(StrEnum):
    """The result of cloud-init's SSH seed, as the agent reports it."""

    OK = "ok"
    FAILED = "failed"
    UNKNOWN = "unknown"


SSH_SEED_LIMIT = 3
"""Number of consecutive failed SSH seeds after which the stage needs an operator."""
# The time after which farrier tries again to take a node out of service that a brake holds. The brake counts the node
# for three times as long, so that a recovered node soon stops counting.
BRAKE_RETRY = timedelta(minutes=1)
POWER_IS_OFF = "a fresh read reports power off"


class Alert(msgspec.Struct, frozen=True):
    id: str
    message: str = ""
    blocks_scheduling: bool = False


class Health(msgspec.Struct, frozen=True, gc=False):
    """The last report of an agent. Unknown fields are ignored, because agents are upgraded independently of farrier."""

    ok: bool = True
    alerts: tuple[Alert, ...] = ()
    ssh_seed: SshSeed = SshSeed.UNKNOWN


class Vitals(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The facts that decide whether a node is healthy. `heard`, `awaited`, `blocking` and `is_off` apply to a node with
    an agent; the fields after them apply to an agentless node."""

    agentless: bool
    heard: bool = False  # the last heartbeat of the agent is fresh
    awaited: bool = False  # without the outages since it, the last heartbeat is fresh
    blocking: tuple[Condition, ...] = ()  # conditions of the last report that block scheduling
    is_off: bool = False  # a fresh read of the BMC reports power off, and no heartbeat is newer
    has_bmc: bool = False
    has_maas: bool = False
    power: PowerState | None = None  # as the BMC reports it; None without a fresh read
    deployed: bool | None = None  # as MAAS reports it; None without a fresh read


def unproven(vitals: Vitals) -> str | None:
    """Return why fresh facts do not prove that the node is healthy, or None. Only a healthy node may be `active`. The
    reason contains no ages, so its text does not change from run to run."""
    if vitals.agentless:
        return _unproven_by_reads(vitals)
    if vitals.is_off:
        return POWER_IS_OFF
    if not vitals.heard:
        return "no heartbeat within offline_after"
    if vitals.blocking:
        return f"alerts block scheduling: {', '.join(each.id for each in vitals.blocking)}"
    return None


def _unproven_by_reads(vitals: Vitals) -> str | None:
    if not vitals.has_bmc:
        return "the node has neither an agent nor a BMC, so its health cannot be proven"
    if vitals.power is None:
        return "no fresh read of the BMC's power state"
    if vitals.power is not PowerState.ON:
        return f"power is {vitals.power}"
    if vitals.has_maas and not vitals.deployed:
        return "no fresh read of MAAS reports the machine as deployed"
    return None


def silent(vitals: Vitals) -> str | None:
    """Return why an active node is silent, or None. If an outage or dead doors may have prevented a heartbeat, a
    missing heartbeat does not make the node silent. An agentless node is never silent, because an unreachable BMC does
    not show the state of the machine."""
    if vitals.agentless or vitals.heard or vitals.awaited:
        return None
    return "no heartbeat within offline_after"


def off(vitals: Vitals) -> str | None:
    """Return that the machine is switched off, or None. For a node with an agent, a heartbeat after the reading proves
    that the machine runs."""
    is_off = vitals.power is PowerState.OFF if vitals.agentless else vitals.is_off
    return POWER_IS_OFF if is_off else None
