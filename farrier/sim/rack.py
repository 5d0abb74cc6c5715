"""A rack of machines that no node has, for a user of `farrier demo` to onboard.

The machines have BMCs, and the region can install them. Their list is a file that `farrier import` reads.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path

from farrier.sim.bmc import SimulatedBmc, SimulatedSystem, fake_systems

_MACHINES = 2
# The numbers of the systems of fleets are below.
_FIRST = 1 << 23
_FIRST_RACK = 8
_FIELDS = ("name", "site", "rack", "model", "labels", "macs", "bmc_address", "bmc_credential")


def spare_systems(after: int) -> dict[str, SimulatedSystem]:
    """Return the machines of the rack beside a fleet whose IDs are greater than `after`, by their names on the list."""
    systems = fake_systems(_MACHINES, first=_FIRST + after)
    return {f"rack{_FIRST_RACK + after}-{place}": system for place, system in enumerate(systems, start=1)}


def write_rack(
    directory: Path, systems: Mapping[str, SimulatedSystem], bmc: SimulatedBmc, *, after: int, site: str
) -> Path:
    """Write the list of the rack, and return its file. A later fleet in the directory has another rack."""
    number = _FIRST_RACK + after
    file = directory / f"rack{number}.csv"
    with file.open("w", encoding="utf-8", newline="") as opened:
        lines = csv.writer(opened, lineterminator="\n")
        lines.writerow(_FIELDS)
        for name, system in systems.items():
            own = (name, site, f"r{number}", "simulated", "gpus=8", system.mac)
            lines.writerow((*own, bmc.addresses[system.uuid], f"file:{bmc.credential_file}"))
    return file
