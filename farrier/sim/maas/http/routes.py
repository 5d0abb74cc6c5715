"""Finds the operation of a path, a method and an `op`, checks rights and locks as MAAS does, and runs the operation
with the region, the call, and the objects that the path names."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from farrier.sim.maas import fleet, network, reading, scripts, show, site, states, storage
from farrier.sim.maas.http.call import HTML, Call, Refused, kind_of
from farrier.sim.maas.records import Interface, Machine
from farrier.sim.maas.region import Region

_Wide = Callable[[Region, Call], object]
_OnMachine = Callable[[Region, Call, Machine], object]
_OnInterface = Callable[[Region, Call, Machine, Interface], object]
_Named = tuple[str, str | None]
_Operation = TypeVar("_Operation")

_WIDE: dict[str, dict[_Named, _Wide]] = {
    "machines": {
        ("GET", None): fleet.listed,
        ("GET", "power_parameters"): fleet.all_power_parameters,
        ("POST", None): fleet.create,
        ("POST", "allocate"): fleet.allocate,
    },
    "events": {("GET", "query"): reading.events},
    "users": {("GET", "whoami"): reading.whoami},
    "subnets": {("GET", None): reading.subnets},
    "fabrics": {("GET", None): reading.fabrics},
    "scripts": {("GET", None): scripts.listed, ("POST", None): scripts.create},
    "maas": {("GET", "get_config"): reading.setting},
}
_CHANGES: dict[str, Callable[[Region, Call, Machine], None]] = {
    "commission": states.commission,
    "deploy": states.deploy,
    "release": states.release,
    "abort": states.abort,
    "test": states.test,
    "mark_broken": states.mark_broken,
    "mark_fixed": states.mark_fixed,
    "lock": states.lock,
    "unlock": states.unlock,
    "power_off": states.power_off,
    "rescue_mode": states.rescue_mode,
    "exit_rescue_mode": states.exit_rescue_mode,
}
_ON_LOCKED = {"lock", "unlock"}
_ON_INTERFACE: dict[_Named, _OnInterface] = {
    ("PUT", None): network.update,
    ("POST", "link_subnet"): network.link_subnet,
    ("POST", "unlink_subnet"): network.unlink_subnet,
}
_ON_INTERFACES: dict[_Named, _OnMachine] = {
    ("POST", "create_bond"): network.create_bond,
    ("POST", "create_vlan"): network.create_vlan,
}
_ON_MACHINE: dict[_Named, _OnMachine] = {
    ("PUT", None): fleet.update,
    ("DELETE", None): fleet.delete,
    ("POST", "set_workload_annotations"): fleet.set_workload_annotations,
    ("POST", "set_storage_layout"): storage.set_storage_layout,
}


_ON_SCRIPT: dict[_Named, Callable[[Region, Call, str], object]] = {
    ("GET", None): scripts.read,
    ("GET", "download"): scripts.download,
    ("PUT", None): scripts.update,
    ("DELETE", None): scripts.delete,
}


# The methods in the region's Allow header for each kind of path.
_METHODS: dict[str, str] = {
    "version": "GET",
    "events": "GET",
    **dict.fromkeys(("machines", "users", "subnets", "fabrics", "scripts"), "POST, GET"),
    "fabrics/*/vlans": "POST, GET",
    "machines/*": "PUT, DELETE, POST, GET",
    "nodes/*/interfaces": "POST, GET",
    "nodes/*/interfaces/*": "PUT, DELETE, POST, GET",
    "nodes/*/blockdevices/*": "PUT, DELETE, POST, GET",
    "nodes/*/results": "GET",
    "nodes/*/results/*": "PUT, DELETE, GET",
    "maas": "POST, GET",
    "scripts/*": "POST, DELETE, PUT, GET",
}


def check_known(path: list[str]) -> None:
    """Refuse a path that does not exist, for every client."""
    if kind_of(path) not in _METHODS:
        raise unknown("/".join(["", "MAAS", "api", "2.0", *path, ""]))


def answer(region: Region, call: Call, path: list[str]) -> object:
    """Run the operation and return its result. Raises Refused, checked in this order: 405 for a wrong method, 400 for
    an unknown operation, 404 for a missing object."""
    methods = _METHODS[kind_of(path)]
    if call.method not in methods.split(", "):
        raise Refused(405, headers={"Allow": methods}, kind=HTML)
    match path:
        case ["version"]:
            return site.version()
        case ["fabrics", fabric, "vlans"] if (call.method, call.op) == ("GET", None):
            return reading.vlans(region, fabric)
        case ["machines", system_id]:
            return _on_machine(region, call, system_id)
        case ["scripts", name]:
            return _named(_ON_SCRIPT, call)(region, call, name)
        case ["nodes", system_id, *rest]:
            return _inside(region, call, system_id, rest)
        case [collection]:
            return _named(_WIDE[collection], call)(region, call)
        case _:
            raise _unrecognised(call)


def unknown(path: str) -> Refused:
    return Refused(404, f"Unknown API endpoint: {path}.")


def _unrecognised(call: Call) -> Refused:
    return Refused(400, f"Unrecognised signature: method={call.method} op={call.op}")


def _named(table: dict[_Named, _Operation], call: Call) -> _Operation:
    operation = table.get((call.method, call.op))
    if operation is None:
        raise _unrecognised(call)
    return operation


def _machine(region: Region, call: Call, system_id: str, *, missed: str = "Machine") -> Machine:
    """Return the machine if the caller may see it, and change it if the call does. If there is no machine, the error
    calls it `missed`."""
    machine = region.machines.get(system_id)
    if machine is None:
        raise Refused(404, f"No {missed} matches the given query.")
    if not fleet.sees(call, machine):
        raise Refused(403)
    _check_rights(call, machine)
    return machine


def _on_machine(region: Region, call: Call, system_id: str) -> object:
    if (call.method, call.op) == ("GET", None):
        return show.machine(region, _machine(region, call, system_id))
    change = _CHANGES.get(call.op or "") if call.method == "POST" else None
    if change is None:
        operation = _named(_ON_MACHINE, call)
        return operation(region, call, _machine(region, call, system_id))
    machine = _machine(region, call, system_id)
    change(region, call, machine)
    return show.machine(region, machine)


def _check_rights(call: Call, machine: Machine) -> None:
    if call.method == "GET" or call.op in _ON_LOCKED:
        return
    if machine.locked:
        raise Refused(403)
    administers = call.op in {"commission", "test", "set_storage_layout"} or call.method in {"PUT", "DELETE"}
    if administers and not call.user.is_superuser:
        raise Refused(403)


def _inside(region: Region, call: Call, system_id: str, rest: list[str]) -> object:
    """Run an operation on a part of a machine. If the machine is missing, MAAS names a type by the path."""
    match rest:
        case ["interfaces"]:
            operation = _named(_ON_INTERFACES, call)
            return operation(region, call, _machine(region, call, system_id))
        case ["interfaces", wanted]:
            change = _named(_ON_INTERFACE, call)
            machine = _machine(region, call, system_id, missed="Interface")
            return change(region, call, machine, network.found(machine, wanted))
        case ["blockdevices", wanted] if (call.method, call.op) == ("POST", "set_boot_disk"):
            machine = _machine(region, call, system_id, missed="BlockDevice")
            return storage.set_boot_disk(region, call, machine, storage.found(machine, wanted))
        case ["results"] if (call.method, call.op) == ("GET", None):
            return reading.results(region, call, _machine(region, call, system_id, missed="Node"))
        case ["results", wanted] if (call.method, call.op) == ("GET", None):
            return reading.result(region, call, _machine(region, call, system_id, missed="Node"), wanted)
    raise _unrecognised(call)
