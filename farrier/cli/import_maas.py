"""Reads the machines of a site's MAAS region to rows of an import. Sends only requests that read."""

from __future__ import annotations

import typer

from farrier.cli import regions
from farrier.cli.connection import Session
from farrier.cli.import_file import Row
from farrier.config.reading import nearest
from farrier.handlers.node.onboarding.discovery import macs_of
from farrier.model.maas import Machine
from farrier.model.maas_changes import LookUp
from farrier.model.views import Wanted

_PAGE = 1000
# What MAAS reports for a value that it could not read.
_UNKNOWN = "Unknown"


async def rows(session: Session, site: str) -> list[Row]:
    """One row for each machine of the region, with the name of the node that has the machine, or else its host name."""
    sites = regions.configured(session.settings)
    if site not in sites:
        raise typer.BadParameter(f"--maas: no site {site!r}; {nearest(site, sites)}")
    if sites[site].maas is None:
        raise typer.BadParameter(f"--maas: site {site} has no MAAS region; add [maas] to its file")
    async with regions.opened(session.settings, sites) as clients:
        client = clients.client(site)
        assert client is not None
        # The addresses are the only list of all machines that the region returns in one small response.
        machines = await client.machines(LookUp.ID, sorted(await client.power_addresses()))
    if not machines:
        raise typer.BadParameter(f"--maas: the region of site {site} has no machines")
    names = await _names(session, site)
    return [_row(site, machine, names.get(machine.system_id)) for machine in machines]


async def _names(session: Session, site: str) -> dict[str, str]:
    """The names of the nodes of the site by their machines."""
    found: dict[str, str] = {}
    after, full = "", True
    while full:
        page = await session.queries.inventory(Wanted(details={"site": (site,)}), after=after, limit=_PAGE)
        found |= {node.maas_id: node.name for node in page.rows if node.maas_id is not None}
        full = len(page.rows) == _PAGE
        after = page.rows[-1].name if full else after
    return found


def _row(site: str, machine: Machine, name: str | None) -> Row:
    values: dict[str, object] = {"site": site, "maas_id": machine.system_id}
    model = machine.hardware_info.system_product if machine.hardware_info is not None else None
    if model and model != _UNKNOWN:
        values["model"] = model
    if macs := macs_of(machine):
        values["macs"] = list(macs)
    return Row(where=f"machine {machine.system_id}", name=name or machine.hostname, values=values, bmc={})
