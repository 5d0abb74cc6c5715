"""Records the calls that a MAAS region receives, in a form that another client can repeat on another region.

`Calls` records the calls while a daemon works, and `bench.bare_client` repeats them. The names of objects replace the
ids of the region, because another region assigns other ids: `<gpu-1>` is a machine, `<gpu-1/disk/2>` its third disk.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urlencode

import msgspec

from farrier.sim.maas import Region
from farrier.sim.maas.http.call import Exchange
from farrier.sim.maas.records import Machine

_NAMED = re.compile(r"<([^<>]+)>")


class Made(msgspec.Struct, frozen=True):
    """A recorded call. `machine` is the host name of the machine that the call concerns, if any; the call may create
    this machine."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...]
    form: tuple[tuple[str, str], ...]
    machine: str | None
    creates: bool
    refused: bool

    def to(self, ids: Mapping[str, str]) -> str:
        """Return the path and the query with these IDs."""
        query = urlencode([(name, _spelled(value, ids)) for name, value in self.query])
        return _spelled(self.path, ids) + (f"?{query}" if query else "")


class _Known(msgspec.Struct, frozen=True):
    id: int


class Told(msgspec.Struct, frozen=True):
    """The IDs in a response about one machine."""

    system_id: str
    blockdevice_set: tuple[_Known, ...] = ()
    interface_set: tuple[_Known, ...] = ()

    def ids(self, name: str) -> dict[str, str]:
        """Return the IDs by the names that calls use."""
        disks = {f"{name}/disk/{place}": str(disk.id) for place, disk in enumerate(self.blockdevice_set)}
        ports = {f"{name}/port/{place}": str(port.id) for place, port in enumerate(self.interface_set)}
        return {name: self.system_id, **disks, **ports}


class Calls:
    """All calls that `region` receives, in the order of its responses."""

    def __init__(self, region: Region) -> None:
        self.made: list[Made] = []
        self._region = region
        region.on_answer.append(self._answered)

    def _answered(self, exchange: Exchange) -> None:
        parts = exchange.path.split("/")
        creates = exchange.method == "POST" and exchange.path.endswith("/machines/")
        machine = next((found for part in parts if (found := self._region.machines.get(part)) is not None), None)
        if machine is not None:
            parts = [_written(machine, before, part) for before, part in zip(["", *parts], parts, strict=False)]
        name = dict(exchange.form).get("hostname") if creates else None
        self.made.append(
            Made(
                method=exchange.method,
                path="/".join(parts),
                query=tuple((key, self._of_any(value)) for key, value in exchange.query),
                form=tuple(exchange.form),
                machine=machine.hostname if machine is not None else name,
                creates=creates,
                refused=exchange.answer.status >= 400,
            )
        )

    def _of_any(self, value: str) -> str:
        machine = self._region.machines.get(value)
        return value if machine is None else f"<{machine.hostname}>"


def _written(machine: Machine, before: str, part: str) -> str:
    """Return a part of the path. If it is an ID of `machine` or of its disks and ports, it is replaced by a name.
    `before` is the preceding part."""
    match before:
        case "machines" | "nodes":
            return f"<{machine.hostname}>"
        case "blockdevices" if part.isdecimal():
            return f"<{machine.hostname}/disk/{[disk.id for disk in machine.disks].index(int(part))}>"
        case "interfaces" if part.isdecimal():
            return f"<{machine.hostname}/port/{[port.id for port in machine.interfaces].index(int(part))}>"
        case _:
            return part


def _spelled(text: str, ids: Mapping[str, str]) -> str:
    return _NAMED.sub(lambda found: ids[found.group(1)], text)


def needed(made: Made) -> frozenset[str]:
    """Return the names of the machines whose IDs the call contains."""
    held = [made.path, *(value for _, value in made.query)]
    return frozenset(name.partition("/")[0] for text in held for name in _NAMED.findall(text))
