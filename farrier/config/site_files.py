"""Reads the sites of a directory. Each file `NAME.toml` defines the site NAME, and may name a cloud-init template,
which is also read.

The daemon calls this module at the start and on SIGHUP, and `farrier site` also calls it. If one file is invalid, the
whole load fails with the faults of all files, so that a change never takes effect in part. The module reads no secret,
and sends no request.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import msgspec

from farrier import agent
from farrier.config import site_checks
from farrier.config.processes import AgentsConfig
from farrier.config.reading import toml
from farrier.config.sites import DERIVED, AgentsSite, Site, Sites
from farrier.config.tables import Fault, Reader, place
from farrier.errors import ConfigError
from farrier.model.plural import counted

# The file of a site with a thousand static addresses has 100 kB, so a larger file is not a site's file.
_LARGEST_SITE = 1024 * 1024
# The limit of user data is cloud_init.max_bytes; template statements and comments need further space.
_LARGEST_TEMPLATE = 1024 * 1024
# The services that sites cannot share. Each site assigns its own partition numbers, so two sites with one UFM would use
# the same numbers.
_OF_ONE_SITE = {"maas": "a region", "ufm": "a UFM"}
# Names of sites are labels of nodes and of metrics, and people type them.
_NAME = re.compile(r"(?![0-9]+$)[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")


class _UnreadableError(Exception):
    """A file cannot be used. The text gives the reason."""


def load(directory: str, agents: AgentsConfig) -> Sites:
    """Return the sites of a directory by name; none if `directory` is empty. Raises ConfigError with all faults."""
    if not directory:
        return {}
    offered = _offered(agents)
    root = Path(directory)
    sites: dict[str, Site] = {}
    wrong: list[str] = []
    for path in _files(root):
        site, faults = _site(path, root, offered)
        wrong += (f"{path.name}: {fault}" for fault in faults)
        if site is not None:
            sites[site.name] = site
    wrong += _together(sites)
    if wrong:
        listed = "".join(f"\n- {each}" for each in wrong)
        raise ConfigError(f"{counted(len(wrong), 'error')} in the sites of {directory}:{listed}")
    return sites


def _offered(agents: AgentsConfig) -> AgentsSite:
    """Return what templates use of the server for agents. Raises ConfigError if a file that it needs is missing."""
    if not agents.url:
        return AgentsSite()
    try:
        ca = _text(Path(agents.ca), _LARGEST_TEMPLATE) if agents.ca else ""
    except _UnreadableError as error:
        raise ConfigError(f"agents.ca {agents.ca!r} {error}") from None
    if agents.ca and "BEGIN CERTIFICATE" not in ca:
        raise ConfigError(f"agents.ca {agents.ca!r}: expected a PEM file with certificates")
    return AgentsSite(url=agents.url.rstrip("/"), ca=ca, sha256=agent.sha256())


def _files(root: Path) -> list[Path]:
    """Return the site files of the directory. Files whose names begin with a dot come from editors and mounts, and are
    not sites."""
    try:
        return sorted(path for path in root.iterdir() if path.suffix == ".toml" and not path.name.startswith("."))
    except (OSError, ValueError) as failure:  # a ValueError means that no directory can have this name
        why = failure.strerror if isinstance(failure, OSError) else failure
        raise ConfigError(f"cannot read the directory of the sites {str(root)!r} (sites.directory): {why}") from failure


def _site(path: Path, root: Path, agents: AgentsSite) -> tuple[Site | None, list[Fault]]:
    """Return the site of a file, or its faults."""
    if not _NAME.fullmatch(path.stem):
        return None, [
            Fault(
                "",
                "a site's name consists of letters, digits and ._-, begins and ends with a letter or digit, and "
                "must not be a number",
            )
        ]
    try:
        table = toml(_text(path, _LARGEST_SITE))
    except _UnreadableError as error:
        return None, [Fault("", str(error))]
    except ValueError as error:
        return None, [Fault("", f"is not valid TOML: {error}")]
    reader = Reader(DERIVED)
    site = reader.struct(Site, table)
    if site is None:
        return None, reader.faults
    site = msgspec.structs.replace(site, name=path.stem, agents=agents)
    if not site.cloud_init.template_file and agents.url:
        cloud_init = msgspec.structs.replace(site.cloud_init, template=agent.template())
        site = msgspec.structs.replace(site, cloud_init=cloud_init)
    if site.cloud_init.template_file:
        try:
            template = _text(_inside(path.parent / site.cloud_init.template_file, root), _LARGEST_TEMPLATE)
            if not template:
                raise _UnreadableError("is empty")
        except _UnreadableError as error:
            return None, [Fault(place("cloud_init", "template_file"), str(error)), *site_checks.faults(site)]
        cloud_init = msgspec.structs.replace(site.cloud_init, template=template)
        site = msgspec.structs.replace(site, cloud_init=cloud_init)
    faults = list(site_checks.faults(site))
    return (None if faults else site), faults


def _inside(path: Path, root: Path) -> Path:
    """Return the path of a file below `root`, with symlinks resolved."""
    try:
        found, allowed = path.resolve(strict=True), root.resolve(strict=True)
    except (OSError, RuntimeError, ValueError) as failure:
        raise _UnreadableError(f"cannot be found: {_why(failure)}") from None
    if not found.is_relative_to(allowed):
        raise _UnreadableError(
            "is outside the directory of the sites, after symlinks are resolved; move it into the directory"
        )
    return found


def _text(path: Path, largest: int) -> str:
    try:
        if not path.is_file():
            raise _UnreadableError("expected a regular file")
        with path.open("rb") as file:
            content = file.read(largest + 1)
    except (OSError, ValueError) as failure:
        raise _UnreadableError(f"cannot be read: {_why(failure)}") from None
    if len(content) > largest:
        raise _UnreadableError(f"is too large; expected at most {largest} bytes")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as failure:
        raise _UnreadableError(f"is not UTF-8: byte {content[failure.start]:#x} at {failure.start}") from None


def _why(failure: Exception) -> str:
    return (failure.strerror if isinstance(failure, OSError) else None) or str(failure)


def _together(sites: Sites) -> Iterator[str]:
    """Return the faults that concern several sites, each of which is valid by itself."""
    names: defaultdict[str, list[str]] = defaultdict(list)
    urls: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for site in sites.values():
        names[site.name.lower()].append(site.name)
        for table, service in (("maas", site.maas), ("ufm", site.ufm)):
            if service is not None:
                urls[table, service.url.lower()].append(site.name)
    for alike in names.values():
        if len(alike) > 1:
            yield f"{', '.join(alike)}: names must differ in more than upper and lower case"
    for (table, url), shared in urls.items():
        if len(shared) > 1:
            what = _OF_ONE_SITE[table]
            yield f"{', '.join(shared)}: [{table}] url: all use {url}; {what} can belong to only one site"
