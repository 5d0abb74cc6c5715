"""Reads Redfish resources without trust in their content. Pure functions of decoded JSON.

Used by the probe. A field that is missing or of another type counts as absent, and texts are cleaned and truncated
before they are stored. Only a missing field that is indispensable raises `BmcError`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from farrier.model.bmc import BmcError, BmcFailure, PowerState

Resource: TypeAlias = Mapping[str, Any]

RESET = "#ComputerSystem.Reset"

# Vendors' names and serial numbers have a few dozen characters; a longer text is neither.
LONGEST_TEXT = 128
LONGEST_PATH = 512

_POWER = {
    "On": PowerState.ON,
    "PoweringOn": PowerState.ON,
    "Off": PowerState.OFF,
    "PoweringOff": PowerState.OFF,
}
_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")


def power(system: Resource) -> PowerState:
    """The power state; `unknown` while it is neither on nor off (Paused, Reset, null, absent, new words)."""
    state = system.get("PowerState")
    return _POWER.get(state, PowerState.UNKNOWN) if isinstance(state, str) else PowerState.UNKNOWN


def power_text(system: Resource) -> str:
    """The power state in the BMC's own word."""
    return text(system.get("PowerState")) or "null"


def text(value: object) -> str | None:
    """A text fit to be stored and shown: printable, trimmed, truncated; None for an empty text and for any other
    value."""
    if not isinstance(value, str):
        return None
    return "".join(character for character in value if character.isprintable()).strip()[:LONGEST_TEXT] or None


def link(value: object) -> str | None:
    """The path in a reference such as `{"@odata.id": "/redfish/v1/Systems/1"}`."""
    path = value.get("@odata.id") if isinstance(value, Mapping) else None
    fit = isinstance(path, str) and path.startswith("/") and path.isprintable() and len(path) <= LONGEST_PATH
    return path if fit else None


def links(value: object) -> tuple[str, ...]:
    """The paths in a list of references, in the order of the list; other elements are ignored."""
    if not isinstance(value, Sequence) or isinstance(value, str):
        return ()
    return tuple(path for path in map(link, value) if path is not None)


def host_system(systems: Mapping[str, Resource]) -> str:
    """The path of the host among a BMC's systems. Its position does not count: baseboards come first on some machines.

    The host is the only system; else the only system that can be reset; else the only one of these systems with a BIOS.
    """
    if not systems:
        raise BmcError(BmcFailure.UNSUPPORTED, "the BMC lists no system")
    candidates = list(systems)
    for narrow in (can_reset, _has_bios):
        if len(candidates) > 1:
            candidates = [path for path in candidates if narrow(systems[path])]
    if len(candidates) != 1:
        raise BmcError(
            BmcFailure.UNSUPPORTED,
            f"several systems could be the host: {', '.join(sorted(systems))}; add the path of the host's system to "
            "the BMC address",
        )
    return candidates[0]


def is_system(resource: Resource) -> bool:
    """Whether a resource is a system; an error page in JSON with status 200 is not."""
    kind = resource.get("@odata.type")
    return "PowerState" in resource or (isinstance(kind, str) and kind.startswith("#ComputerSystem."))


def can_reset(system: Resource) -> bool:
    """Whether the system offers the action that switches its power."""
    return reset_target(system) is not None


def reset_target(system: Resource) -> str | None:
    """The target of the action that switches the system's power."""
    return link({"@odata.id": _reset(system).get("target")})


def reset_types(system: Resource) -> frozenset[str] | None:
    """The reset types that the action lists; None if it lists none."""
    return _texts(_reset(system).get("ResetType@Redfish.AllowableValues"))


def reset_info(system: Resource) -> str | None:
    """The path of the resource in which the action lists its parameters."""
    return link({"@odata.id": _reset(system).get("@Redfish.ActionInfo")})


def reset_types_of(info: Resource) -> frozenset[str] | None:
    """The reset types that this resource lists; None if it lists none."""
    parameters = info.get("Parameters")
    for parameter in parameters if isinstance(parameters, list) else ():
        if isinstance(parameter, Mapping) and parameter.get("Name") == "ResetType":
            return _texts(parameter.get("AllowableValues"))
    return None


def managers(system: Resource) -> tuple[str, ...]:
    """The paths of the managers of the system."""
    related = system.get("Links")
    return links(related.get("ManagedBy")) if isinstance(related, Mapping) else ()


def is_manager(resource: Resource) -> bool:
    """Whether a resource is a manager; an error page in JSON with status 200 is not."""
    kind = resource.get("@odata.type")
    return isinstance(kind, str) and kind.startswith("#Manager.")


def health(system: Resource) -> str | None:
    """The health of the system with all its parts or, without such a value, its own."""
    status = system.get("Status")
    if not isinstance(status, Mapping):
        return None
    return text(status.get("HealthRollup")) or text(status.get("Health"))


def uuid(system: Resource) -> str | None:
    """The system's UUID in lower case: versions of firmware spell it differently."""
    value = text(system.get("UUID"))
    return value.lower() if value else None


def mac(interface: Resource) -> str | None:
    """The burnt-in address of a network interface, or the address in use, as `aa:bb:cc:dd:ee:ff`."""
    for field in ("PermanentMACAddress", "MACAddress"):
        value = text(interface.get(field))
        if value and _MAC.fullmatch(spelled := value.lower().replace("-", ":")):
            return spelled
    return None


def _has_bios(system: Resource) -> bool:
    return link(system.get("Bios")) is not None


def _reset(system: Resource) -> Mapping[str, Any]:
    actions = system.get("Actions")
    reset = actions.get(RESET) if isinstance(actions, Mapping) else None
    return reset if isinstance(reset, Mapping) else {}


def _texts(value: object) -> frozenset[str] | None:
    return frozenset(one for one in value if isinstance(one, str)) if isinstance(value, list) else None
