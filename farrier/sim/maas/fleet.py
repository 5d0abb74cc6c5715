"""The operations on the records of machines: find, list, create, change, delete, annotate, allocate.

Lists have no pages and no choice of fields, and refuse unknown filters; host names and MAC addresses are unique in the
region, BMC addresses are not. A user without administrator rights sees only the user's own machines and machines
without an owner.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from farrier.model.maas.reading import StatusNumber as Status
from farrier.sim.maas import show, states
from farrier.sim.maas.http.call import Answer, Call, Refused
from farrier.sim.maas.http.forms import FIELDS, POWER_PARAMETERS, Origin
from farrier.sim.maas.records import Interface, Machine
from farrier.sim.maas.region import Region

_Matches = Callable[[Machine], set[str]]
_FILTERS: dict[str, _Matches] = {
    "id": lambda machine: {machine.system_id},
    "hostname": lambda machine: {machine.hostname},
    "mac_address": lambda machine: {interface.mac_address for interface in machine.interfaces},
}
# The form in which farrier writes an address. MAAS accepts further separators (maascommon/fields.py:8).
_MAC = re.compile("([0-9a-f]{1,2}:){5}[0-9a-f]{1,2}", re.IGNORECASE)
# The systems that support hardware sync (maasserver/forms/__init__.py:895).
_SYNCS = {"ubuntu", "centos", "rhel", "ol", "custom"}
_EXISTS = "Node with this Hostname already exists."


def sees(call: Call, machine: Machine) -> bool:
    return call.user.is_superuser or machine.owner in {None, call.user.username}


def listed(region: Region, call: Call) -> object:
    return [show.machine(region, machine) for machine in selected(region, call)]


def selected(region: Region, call: Call) -> list[Machine]:
    """Return the machines that match all filters. A filter matches if one of its values matches."""
    wanted: dict[str, set[str]] = {}
    for name, value in call.unnamed(Origin.GET):
        if name not in _FILTERS:
            raise Refused(400, {name: ["No such constraint."]})
        if name == "mac_address" and not _MAC.fullmatch(value):  # maasserver/node_constraint_filter_forms.py:1379
            raise Refused(400, {name: [f"'{value}' is not a valid MAC address."]})
        wanted.setdefault(name, set()).add(value.lower() if name == "mac_address" else value)
    found = [region.machines[one] for one in sorted(wanted.get("id", ())) if one in region.machines]
    return [
        machine
        for machine in (found if "id" in wanted else region.machines.values())
        if sees(call, machine) and all(_FILTERS[name](machine) & values for name, values in wanted.items())
    ]


def all_power_parameters(region: Region, call: Call) -> object:
    if not call.user.is_superuser:
        raise Refused(403, "This method is reserved for admin users.")
    wanted = call.many("id") or list(region.machines)
    return {one: show.power_parameters(region.machines[one]) for one in wanted if one in region.machines}


def create(region: Region, call: Call) -> object:
    """Create a machine. As in MAAS, the status is 200 instead of 201, commissioning begins at once unless a parameter
    prevents it, and a failed commissioning is not reported."""
    macs = [mac.lower() for mac in call.many("mac_addresses") if mac]
    hostname = call.one("hostname") or f"machine-{region.next_id('hostname')}"
    power_type = call.one("power_type") or ""
    _check_new(region, call, hostname=hostname, macs=macs, power_type=power_type)
    machine = Machine(
        system_id=region.next_system_id(),
        hostname=hostname,
        architecture=call.one("architecture") or "amd64/generic",
        description=call.one("description") or "",
        power_type=power_type,
        power_parameters=_power_parameters(call),
        domain=call.one("domain") or "maas",
        zone=call.one("zone") or "default",
        pool=call.one("pool") or "default",
        interfaces=[
            Interface(id=region.next_id("interface"), name=f"eth{number}", mac_address=mac)
            for number, mac in enumerate(macs)
        ],
    )
    region.keep(machine)
    deployed, commission = call.flag("deployed"), call.flag("commission")  # MAAS parses it twice: validator, then form
    if call.flag("deployed in the form"):
        machine.owner = call.user.username
        region.move(machine, Status.DEPLOYED)
    if call.user.is_superuser and commission and not deployed:
        _commission_quietly(region, call, machine)
    return show.machine(region, machine)


def _commission_quietly(region: Region, call: Call, machine: Machine) -> None:
    path = ["machines", machine.system_id]
    quiet = Call(method="POST", op="commission", user=call.user, query=[], form=call.form).named(path)
    try:
        states.commission(region, quiet, machine)
        for step in quiet.later:
            step()
    except Refused:
        return


def _power_parameters(call: Call) -> dict[str, str]:
    names = [name for name, _ in call.unnamed(Origin.POST) if name.startswith(POWER_PARAMETERS)]
    unknown = {name for name in names if name not in FIELDS[call.operation]}
    if unknown:
        shown = ", ".join(sorted(name.removeprefix(POWER_PARAMETERS) for name in unknown))
        raise Refused(400, {"power_parameters": [f"Unknown parameter(s): {shown}."]})
    given = {name.removeprefix(POWER_PARAMETERS): call.one(name) or "" for name in names}
    address = given.get("power_address", "")
    if "/" in address:
        raise Refused(500, f"IPAddress() does not support netmasks or subnet prefixes! See documentation: {address}")
    return given


def _check_new(region: Region, call: Call, *, hostname: str, macs: list[str], power_type: str) -> None:
    problems = call.problems()
    architecture = call.one("architecture") or "amd64/generic"
    if architecture not in region.site.architectures:
        choices = ", ".join(f"'{one}'" for one in region.site.architectures) or "''"
        text = f"'{architecture}' is not a valid architecture.  It should be one of: {choices}."
        problems["architecture"] = [text]
    if hostname in region.hostnames:
        problems["hostname"] = [_EXISTS]
    taken = [mac for mac in macs if mac in region.macs]
    if taken:
        holder = region.machines[region.macs[taken[0]]].hostname
        problems["mac_addresses"] = [f"MAC address {taken[0]} already in use on {holder}."]
    if power_type == "redfish" and len(taken) == len(macs):
        problems["power_type"] = ["Can't set power type to redfish without network interfaces"]
    _check_place(region, call, problems)
    if problems:
        raise Refused(400, problems)
    if power_type == "redfish":
        required = ("power_address", "power_user", "power_pass")
        missing = [name for name in required if not call.one(f"power_parameters_{name}")]
        if missing:
            raise Refused(400, {"power_parameters": [f"{missing[0]}: This field is required."]})


def _check_place(region: Region, call: Call, problems: dict[str, object]) -> None:
    for name, known in (("zone", region.site.zones), ("pool", region.site.pools)):
        if call.one(name) and call.one(name) not in known:
            problems[name] = ["Select a valid choice. That choice is not one of the available choices."]


def update(region: Region, call: Call, machine: Machine) -> object:
    """Change the given fields and keep all others."""
    problems = call.problems()
    hostname = call.one("hostname") or machine.hostname
    if hostname != machine.hostname and hostname in region.hostnames:
        problems["hostname"] = [_EXISTS]
    _check_place(region, call, problems)
    if call.has("enable_hw_sync") and call.flag("enable_hw_sync") and machine.osystem not in _SYNCS:
        problems["enable_hw_sync"] = ["Hardware sync is only supported for Linux based image deploys."]
    if problems:
        raise Refused(400, problems)
    machine.power_parameters = machine.power_parameters | _power_parameters(call)
    region.hostnames.pop(machine.hostname, None)
    for name in ("description", "architecture", "power_type", "domain", "zone", "pool"):
        value = call.one(name)
        if value or (value is not None and name in {"description", "power_type"}):
            setattr(machine, name, value)
    machine.hostname = hostname
    region.hostnames[hostname] = machine.system_id
    if call.has("enable_hw_sync"):
        machine.enable_hw_sync = call.flag("enable_hw_sync")
    return show.machine(region, machine)


def delete(region: Region, call: Call, machine: Machine) -> object:
    """Delete the machine in any status, without switching it off."""
    region.forget(machine)
    return Answer(status=204)


def set_workload_annotations(region: Region, call: Call, machine: Machine) -> object:
    if machine.owner != call.user.username:
        raise Refused(409, "Cannot set workload annotation: it hasn't been acquired.")
    given = dict(call.unnamed(Origin.POST))
    merged = machine.annotations | given
    machine.annotations = {name: value for name, value in merged.items() if value}
    return show.machine(region, machine)


def allocate(region: Region, call: Call) -> object:
    wanted = call.one("system_id")
    known = region.machines
    candidates = list(known.values()) if wanted is None else [known[wanted]] if wanted in known else []
    chosen = [machine for machine in candidates if machine.status is Status.READY]
    if not chosen:
        text = f"No machine with system ID {wanted} available." if wanted else "No machine available."
        raise Refused(409, text)
    states.acquire(region, call, chosen[0])
    return {**show.machine(region, chosen[0]), "constraints_by_type": {}}
