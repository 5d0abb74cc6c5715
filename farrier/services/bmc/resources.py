"""Pure functions that read decoded Redfish resources and their links without trusting their content.

A field of an unexpected type counts as missing. Texts are cleaned and truncated before they are stored. `BmcError` is
raised only if an indispensable field is missing. farrier uses only the path of an absolute URL or a redirect, and sends
every request to the host that it has checked, so a link cannot lead farrier to another host; a link to another host
stays as it is, and is not followed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any, TypeAlias

import msgspec
from yarl import URL

from farrier.model.machine import identity
from farrier.model.machine.bmc import BmcError, BmcFailure, PowerState
from farrier.services.bmc.address import number

Resource: TypeAlias = Mapping[str, Any]

RESET = "#ComputerSystem.Reset"

# Vendors' names and serial numbers have a few dozen characters; a longer text is an error.
LONGEST_TEXT = 128
LONGEST_PATH = 512

_POWER = {
    "On": PowerState.ON,
    "PoweringOn": PowerState.ON,
    "Off": PowerState.OFF,
    "PoweringOff": PowerState.OFF,
}
# The fields whose text is a link.
_LINKS = frozenset({"@odata.id", "target", "@Redfish.ActionInfo"})
_NEXT = "@odata.nextLink"
_MAC_DIGITS = 12
# The system of an NVIDIA GPU baseboard has this ID on the BMCs of all vendors.
_GPU_BASEBOARD = re.compile(r"HGX_Baseboard_[0-9]+")


def power(system: Resource) -> PowerState:
    """Return the power state. The state is `unknown` while the power is neither on nor off (Paused, Reset, null,
    missing, other words)."""
    state = system.get("PowerState")
    return _POWER.get(state, PowerState.UNKNOWN) if isinstance(state, str) else PowerState.UNKNOWN


def power_text(system: Resource) -> str:
    """Return the power state in the BMC's own word."""
    return text(system.get("PowerState")) or "null"


def text(value: object) -> str | None:
    """Return a text that can be stored and shown (printable, trimmed, truncated), or None for an empty text or any
    other value."""
    if not isinstance(value, str):
        return None
    if not value.isprintable():
        value = "".join(character for character in value if character.isprintable())
    return value.strip()[:LONGEST_TEXT] or None


def link(value: object) -> str | None:
    """Return the path in a reference such as `{"@odata.id": "/redfish/v1/Systems/1"}`."""
    path = value.get("@odata.id") if isinstance(value, Mapping) else None
    fit = isinstance(path, str) and path.startswith("/") and path.isprintable() and len(path) <= LONGEST_PATH
    return path if fit else None


def links(value: object) -> tuple[str, ...]:
    """Return the paths in a list of references, in the order of the list. Other elements are ignored."""
    if not isinstance(value, Sequence) or isinstance(value, str):
        return ()
    return tuple(path for path in map(link, value) if path is not None)


def possible_hosts(paths: Sequence[str]) -> tuple[str, ...]:
    """Return the paths of the systems that may be the host: all except GPU baseboards. If a BMC lists only baseboards,
    all may be the host. A baseboard has its own controller; while the host is off, the BMC of a DGX H100 responds with
    503 to reads of the baseboard."""
    hosts = tuple(path for path in paths if not _GPU_BASEBOARD.fullmatch(path.rstrip("/").rpartition("/")[2]))
    return hosts or tuple(paths)


def host_system(systems: Mapping[str, Resource]) -> str:
    """Return the path of the host among a BMC's systems. The position of the host in the list does not matter: some
    BMCs list baseboards first.

    If there are several systems, the host is the only system that can be reset. If several systems can be reset, the
    host is the only one of them with a BIOS.
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
    """Return whether a resource is a system. Some BMCs return an error page in JSON with status 200 instead."""
    kind = resource.get("@odata.type")
    return "PowerState" in resource or (isinstance(kind, str) and kind.startswith("#ComputerSystem."))


def can_reset(system: Resource) -> bool:
    """Return whether the system offers the action that switches its power."""
    return reset_target(system) is not None


def reset_target(system: Resource) -> str | None:
    """Return the path of the action that switches the system's power."""
    return link({"@odata.id": _reset(system).get("target")})


def reset_types(system: Resource) -> frozenset[str] | None:
    """Return the reset types that the action lists, or None if it lists none."""
    return _texts(_reset(system).get("ResetType@Redfish.AllowableValues"))


def reset_info(system: Resource) -> str | None:
    """Return the path of the resource that lists the parameters of the action."""
    return link({"@odata.id": _reset(system).get("@Redfish.ActionInfo")})


def reset_types_of(info: Resource) -> frozenset[str] | None:
    """Return the reset types that this resource lists, or None if it lists none."""
    parameters = info.get("Parameters")
    for parameter in parameters if isinstance(parameters, list) else ():
        if isinstance(parameter, Mapping) and parameter.get("Name") == "ResetType":
            return _texts(parameter.get("AllowableValues"))
    return None


def managers(system: Resource) -> tuple[str, ...]:
    """Return the paths of the managers of the system."""
    related = system.get("Links")
    return links(related.get("ManagedBy")) if isinstance(related, Mapping) else ()


def is_manager(resource: Resource) -> bool:
    """Return whether a resource is a manager. Some BMCs return an error page in JSON with status 200 instead."""
    kind = resource.get("@odata.type")
    return isinstance(kind, str) and kind.startswith("#Manager.")


def health(system: Resource) -> str | None:
    """Return the health of the system including all its parts. If the BMC does not report this health, return the
    health of the system without its parts."""
    status = system.get("Status")
    if not isinstance(status, Mapping):
        return None
    return text(status.get("HealthRollup")) or text(status.get("Health"))


def uuid(system: Resource) -> str | None:
    """Return the system's UUID in lower case, because versions of firmware spell it differently."""
    value = text(system.get("UUID"))
    return value.lower() if value else None


def macs(interface: Resource) -> tuple[str, ...]:
    """Return the burnt-in address of a network interface, or the address in use, as `aa:bb:cc:dd:ee:ff`. Raises
    `BmcError` for a text that is no address, because the address is then unknown. The interface that connects the host
    to its BMC has none, because all machines of a vendor may have the same address there."""
    related = interface.get("Links")
    if isinstance(related, Mapping) and link(related.get("HostInterface")) is not None:
        return ()
    for field in ("PermanentMACAddress", "MACAddress"):
        value = interface.get(field)
        found = _addresses(value.strip().lower()) if isinstance(value, str) else ()
        if found:
            return found
    return ()


class Own(msgspec.Struct, frozen=True):
    """A BMC's own URL, and the addresses of its host."""

    url: URL
    addresses: tuple[str, ...] = ()

    def is_host(self, url: URL) -> bool:
        """Return whether a URL names this host, by its name or by one of its addresses."""
        ours = {_spelled(self.url.host), *map(_spelled, self.addresses)}
        return url.user is None and url.password is None and _spelled(url.host) in ours


def path_of(link: str, own: Own) -> str | None:
    """Return the path with the query of an absolute URL on the BMC's own host; None for any other text. A BMC behind a
    proxy or address translation knows neither the port nor the scheme of its URL, so both may differ."""
    if not link.startswith(("http://", "https://", "//", "HTTP://", "HTTPS://")):
        return None
    try:
        url = own.url.join(URL(link))
        is_own = own.is_host(url)
    except ValueError:
        return None
    return url.raw_path_qs if is_own else None


def moved_to(location: str, path: str, own: Own) -> str | None:
    """Return the path to which a redirect of `path` leads, if it leads to another path of the same origin."""
    try:
        came = own.url.join(URL(path))
        url = came.join(URL(location))
        same_port = url.scheme == own.url.scheme and url.port == own.url.port
        is_same = same_port and own.is_host(url)
    except ValueError:
        return None
    return url.raw_path_qs if is_same and url.raw_path_qs != came.raw_path_qs else None


def with_paths(resource: Any, own: Own) -> Any:
    """Replace the absolute URLs on the BMC's own host in all links of a decoded resource by their paths."""
    left = [resource]
    while left:
        place = left.pop()
        if isinstance(place, MutableMapping):
            for field, value in place.items():
                if isinstance(value, str) and (field in _LINKS or field.endswith(_NEXT)):
                    place[field] = path_of(value, own) or value
                elif isinstance(value, Mapping | list):
                    left.append(value)
        elif isinstance(place, list):
            left += [one for one in place if isinstance(one, Mapping | list)]
    return resource


def _addresses(value: str) -> tuple[str, ...]:
    """Return the addresses in a text, in any notation. A world-wide name may be beside them; it has 8 bytes, and the
    hardware address of InfiniBand 20."""
    found = []
    for word in [value] if identity.is_placeholder(value) or _digits(value) else re.split(r"[\s,;/|]+", value):
        digits = _digits(word)
        if len(digits) == _MAC_DIGITS and not identity.is_placeholder(word):
            found.append(":".join(digits[at : at + 2] for at in range(0, _MAC_DIGITS, 2)))
        elif not digits and not identity.is_placeholder(word):
            raise BmcError(BmcFailure.PROTOCOL, "the BMC lists a MAC address in an unknown notation")
    return tuple(found)


def _digits(word: str) -> str:
    """Return the hexadecimal digits of a hardware address without separators; empty for any other text."""
    digits = re.sub(r"[:.\s-]", "", word.removeprefix("0x"))
    return digits if re.fullmatch(r"[0-9a-f]{12}|[0-9a-f]{16}|[0-9a-f]{40}", digits) else ""


def _has_bios(system: Resource) -> bool:
    return link(system.get("Bios")) is not None


def _reset(system: Resource) -> Mapping[str, Any]:
    actions = system.get("Actions")
    reset = actions.get(RESET) if isinstance(actions, Mapping) else None
    return reset if isinstance(reset, Mapping) else {}


def _texts(value: object) -> frozenset[str] | None:
    return frozenset(one for one in value if isinstance(one, str)) if isinstance(value, list) else None


def _spelled(host: str | None) -> str:
    name = (host or "").rstrip(".").lower()
    return str(number(name) or name)
