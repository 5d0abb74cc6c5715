"""Reads the machines of a site's MAAS region with requests that change nothing, and converts the machines to rows of an
import."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import typer

from farrier.cli.imports import file
from farrier.cli.imports.file import ImportRow, RowFault
from farrier.cli.node import actions
from farrier.cli.settings.connection import CommandSession
from farrier.cli.site import regions
from farrier.config.reading import nearest
from farrier.handlers.node.onboarding.discovery import macs_of
from farrier.model.maas.changes import LookUp
from farrier.model.maas.reading import Machine
from farrier.model.machine.identity import is_filler
from farrier.model.node.details import CONTROL
from farrier.model.views.nodes import NodeFilter

_MOST_MODEL = 100
_BLANKS = re.compile(rf"[\s{CONTROL}]+")


async def rows(session: CommandSession, site: str) -> tuple[list[ImportRow], list[RowFault]]:
    """Return a row for each machine of the region, and a fault for each machine that cannot become a node. If a node
    has this machine, the row has the node's name, otherwise the machine's host name."""
    machines = await _machines(session, site)
    names = await _names(session, site)
    checked = [_checked(site, machine, names.get(machine.system_id)) for machine in machines]
    found = [row for row, _ in checked if row is not None]
    faults = [fault for _, wrong in checked for fault in wrong]
    return found, [*faults, *file.doubled(found), *await _of_others(session, site, found)]


async def _machines(session: CommandSession, site: str) -> Sequence[Machine]:
    sites = regions.configured(session.settings)
    if site not in sites:
        raise typer.BadParameter(f"--maas: no site {site!r}; {nearest(site, sites)}")
    if sites[site].maas is None:
        raise typer.BadParameter(f"--maas: site {site} has no MAAS region; add [maas] to its file")
    async with regions.opened(session.settings, sites) as clients:
        client = clients.client(site)
        assert client is not None
        # The list of BMC addresses is the only list of all machines that the region returns in one small response.
        machines = await client.machines(LookUp.ID, sorted(await client.power_addresses()))
    if not machines:
        raise typer.BadParameter(f"--maas: the region of site {site} has no machines")
    return machines


async def _names(session: CommandSession, site: str) -> dict[str, str]:
    """Return the names of the site's nodes, by the IDs of their machines."""
    nodes = await actions.select(session, NodeFilter(details={"site": (site,)}), ())
    return {node.maas_id: node.name for node in nodes if node.maas_id is not None}


async def _of_others(session: CommandSession, site: str, found: Sequence[ImportRow]) -> list[RowFault]:
    """Return a fault for each row whose name another machine has: host names are unique only within a region."""
    by_name = {row.name: row for row in found}
    faults: list[RowFault] = []
    for node in (await actions.registered(session, list(by_name))).values():
        row = by_name[node.name]
        if node.site not in (None, site):
            faults.append(_name_fault(row, f"a node of site {node.site} is already named {node.name!r}", site))
        elif node.maas_id not in (None, row.values["maas_id"]):
            faults.append(_name_fault(row, f"a node with machine {node.maas_id} is already named {node.name!r}", site))
    return faults


def _name_fault(row: ImportRow, text: str, site: str) -> RowFault:
    return RowFault(row.where, "name", f"{text}; {_another_name(site, row.values['maas_id'])}")


def _another_name(site: str, system_id: object) -> str:
    return f"register the machine under another name: farrier node add NAME --site {site} --maas-id {system_id}"


def _checked(site: str, machine: Machine, name: str | None) -> tuple[ImportRow | None, list[RowFault]]:
    row, faults = file.checked(f"machine {machine.system_id}", _given(site, machine, name))
    advice = _another_name(site, machine.system_id)
    return row, [RowFault(one.where, one.field, f"{one.text}; {advice}") for one in faults]


def _given(site: str, machine: Machine, name: str | None) -> Mapping[str, object]:
    """Return the fields of the machine's node. A field is None if MAAS does not know the value."""
    info = machine.hardware_info
    return {
        "name": name or machine.hostname,
        "site": site,
        "maas_id": machine.system_id,
        "model": _model(info.system_product if info is not None else None),
        "macs": list(macs_of(machine)) or None,
    }


def _model(reported: str | None) -> str | None:
    """Return the model in the form of the detail. The firmware's text, which MAAS has, may be a placeholder."""
    text = _BLANKS.sub(" ", reported or "").strip()[:_MOST_MODEL].rstrip()
    return None if not text or is_filler(text) else text
