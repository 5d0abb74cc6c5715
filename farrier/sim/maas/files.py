"""Writes the files that configure farrier for a simulated region: a site, its template for user data, and the key."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import msgspec

from farrier.sim.maas.region import ADMIN


class RegionFiles(msgspec.Struct, frozen=True, kw_only=True):
    """`sites` is the directory of sites; `secrets` is the directory to which `file:` references may lead."""

    sites: Path
    secrets: Path


def write_site(
    directory: Path, site: str, url: str, *, template: str, events_every: timedelta, motion_every: timedelta
) -> RegionFiles:
    """Write `site` as the only site in the directory. `url` is the URL that `open_region` yields."""
    files = RegionFiles(sites=directory / "sites", secrets=directory / "secrets")
    for place in (files.sites, files.secrets):
        place.mkdir(parents=True, exist_ok=True)
    for earlier in files.sites.glob("*.toml"):
        earlier.unlink()
    key = files.secrets / "maas-key"
    key.touch(mode=0o600)
    key.write_text(ADMIN.key)
    (files.sites / "user-data.yaml").write_text(template)
    (files.sites / f"{site}.toml").write_text(
        f"""\
[maas]
url = "{url}"
key = "file:{key}"
deploys_at_once = 4

[observe]
events_every = {events_every.total_seconds():g}
motion_every = {motion_every.total_seconds():g}

[cloud_init]
template_file = "user-data.yaml"
"""
    )
    return files
