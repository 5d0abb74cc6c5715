"""`farrier site`: checks site files, shows the settings of sites and the health of their regions, and lists and lifts
brakes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from functools import partial
from typing import Annotated, Any

import anyio
import msgspec
import typer

from farrier.cli import group
from farrier.cli.intent import answers
from farrier.cli.options import arguments
from farrier.cli.output import lists, printing
from farrier.cli.output.lists import Column, Listing, OutputFormat, formed
from farrier.cli.output.printing import Cell
from farrier.cli.settings.connection import CommandSession, opened, with_database, with_settings
from farrier.cli.site import regions, secret_check
from farrier.cli.site.regions import RegionAnswer
from farrier.clock import wall
from farrier.config import Config, site_files
from farrier.config.sites import Site, Sites
from farrier.errors import ConfigError, ExitCode, FarrierError
from farrier.model import duration
from farrier.model.intents.params import BRAKE_LIFT_MAX
from farrier.model.maas import region as maas_region
from farrier.model.plural import counted
from farrier.model.views.fleet import BrakeView
from farrier.model.views.nodes import Page, RegionView
from farrier.model.views.resources import ResourceView, WantedResources

# How many held nodes a line of the brakes names; -o json has more.
_NAMED = 3

site = group("site")


class ListedSite(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the list: a site that is configured here, or a site whose region is only in the database."""

    site: str
    url: str | None
    region: RegionView | None


@site.command("list")
@with_settings
@formed
def list_(settings: Config, form: OutputFormat) -> None:
    """List the configured sites with their regions, and the regions of sites that are not configured here. The states
    of regions require a database. If farrier cannot read the site files, the command lists the regions, and exits with
    code 2."""
    wrong: ConfigError | None = None
    sites: Sites = {}
    try:
        sites = regions.configured(settings)
    except ConfigError as error:  # if a site's file was lost, the list of regions helps an operator to find the site
        wrong = error
    listed = Listing(
        columns=_columns(sites, "not here" if wrong is None else "not known"),
        pages=lambda: lists.once(lambda: _listed(settings, sites)),
        name=lambda each: each.site,
        fields=ListedSite.__struct_fields__,
        none=f"no files of sites in {settings.sites.directory}" if wrong is None else "no region is known",
    )
    anyio.run(lists.show, listed, form)
    if wrong is not None:
        raise wrong


async def _listed(settings: Config, sites: Sites) -> Page[ListedSite]:
    page = await _observed(settings)
    observed = _by_site(page)
    rows = [
        ListedSite(site=name, url=None if each.maas is None else each.maas.url, region=observed.get(name))
        for name, each in sites.items()
    ]
    rows += [ListedSite(site=name, url=None, region=region) for name, region in observed.items() if name not in sites]
    return Page(page.now, tuple(rows))


def _columns(sites: Sites, elsewhere: str) -> tuple[Column[ListedSite], ...]:
    """Return the columns. If a region has no site file here, `elsewhere` is shown instead of the URL."""
    return (
        Column("SITE", lambda each, _: each.site),
        Column("REGION", lambda each, _: each.url or ("none" if each.site in sites else elsewhere)),
        Column("STATE", lambda each, _: None if each.region is None else each.region.state),
        Column(
            "FOR", lambda each, now: None if each.region is None else printing.ago(each.region.since, now), ages=True
        ),
        Column("ERROR", lambda each, _: None if each.region is None else each.region.last_error),
    )


@site.command("show")
@with_settings
def show(
    settings: Config,
    name: Annotated[str, typer.Argument(metavar="SITE", help="Name of the site.")],
    as_json: printing.AsJson = False,
) -> None:
    """Show all settings of a site, including defaults, and the state of its region."""
    sites = regions.configured(settings)
    if name not in sites:
        raise ConfigError(f"no site {name!r}; expected one of {', '.join(sites) or 'none'}")
    region = _by_site(anyio.run(_observed, settings)).get(name)
    if as_json:
        printing.json({"site": sites[name], "region": region})
        return
    printing.facts(_facts(sites[name], region))


@site.command("check")
@with_settings
def check(
    settings: Config,
    directory: Annotated[
        str | None,
        typer.Argument(metavar="[DIR]", help="Directory of the site files. Default: the setting sites.directory."),
    ] = None,
    ask: Annotated[
        bool,
        typer.Option(
            "--ask",
            help="Ask each region for its version, for the user of farrier's API key, and whether it can clean.",
        ),
    ] = False,
    files_only: Annotated[
        bool, typer.Option("--files-only", help="Read no secrets, for example on a machine that does not have them.")
    ] = False,
    as_json: printing.AsJson = False,
) -> None:
    """Check site files, and whether this process can read the secrets that they name. Requires no database. Exit code
    2: a file is invalid; 1: a secret cannot be read, a region does not respond, or a region cannot clean machines."""
    sites = site_files.load(directory, settings.agents) if directory else regions.configured(settings)
    missing = () if files_only else anyio.run(partial(secret_check.unreadable, settings, sites, of_settings=False))
    asked = anyio.run(regions.ask, settings, sites) if ask else ()
    if as_json:
        printing.json({"sites": list(sites), "unreadable": missing, "regions": asked})
    else:
        typer.echo(_right(sites))
        for each in missing:
            typer.echo(f"farrier: cannot read the secret of {each}", err=True)
        printing.table(
            ("SITE", "VERSION", "USER", "ERROR"), ((each.site, each.version, _user(each), each.error) for each in asked)
        )
    if missing or any(each.error is not None for each in asked):
        raise typer.Exit(ExitCode.FAILED)


def _right(sites: Sites) -> str:
    if not sites:
        return "there are no sites"
    are = "the file of 1 site is" if len(sites) == 1 else f"the files of {len(sites)} sites are"
    return f"{are} valid: {', '.join(sites)}"


@site.command("prepare")
@with_settings
def prepare(
    settings: Config,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[SITE]...", help="Names of sites. Default: all sites with MAAS.")
    ] = None,
    as_json: printing.AsJson = False,
) -> None:
    """Store farrier's check of erased disks in the MAAS regions of sites, or update it there. Needs an administrator's
    API key, and no database. May be repeated. Exit code 1: a region is not prepared."""
    sites = regions.configured(settings)
    unknown = sorted(set(names or ()) - set(sites))
    if unknown:
        raise ConfigError(f"no site {unknown[0]!r}; expected one of {', '.join(sites) or 'none'}")
    wanted = {name: each for name, each in sites.items() if (name in names if names else regions.cleans(each))}
    prepared = anyio.run(regions.prepare, settings, wanted)
    if as_json:
        printing.json(prepared)
    else:
        printing.table(
            ("SITE", "SCRIPT", "RESULT", "REVISION", "ERROR"),
            ((each.site, each.script, each.result, str(each.revision or ""), each.error) for each in prepared),
        )
    if any(each.error is not None for each in prepared):
        raise typer.Exit(ExitCode.FAILED)


@site.command("brakes")
@with_database
@formed
async def list_brakes(session: CommandSession, form: OutputFormat) -> None:
    """List the brakes that hold nodes in service, and the brakes that operators have lifted."""
    listed = Listing(
        columns=_BRAKES,
        pages=lambda: lists.once(session.queries.brakes),
        name=lambda brake: brake.site,
        fields=BrakeView.__struct_fields__,
        none="no brake holds a node or is lifted",
    )
    await lists.show(listed, form)


def _held(brake: BrakeView) -> str:
    more = brake.held - len(brake.nodes[:_NAMED])
    return ", ".join(brake.nodes[:_NAMED]) + (f" and {more} more" if more else "")


def _lifted(brake: BrakeView) -> str:
    return f"by {brake.lifted_by}: {brake.lift_reason}" if brake.lifted_by else ""


_BRAKES: tuple[Column[BrakeView], ...] = (
    Column("SITE", lambda brake, _: brake.site or "''"),
    Column("CAUSE", lambda brake, _: brake.source),
    Column("HOLDS FOR", lambda brake, now: printing.ago(brake.since, now), ages=True),
    Column("HELD", lambda brake, _: str(brake.held)),
    Column("LEAVING", lambda brake, _: None if brake.leaving is None else f"{brake.leaving} of {brake.in_service}"),
    Column("NODES", lambda brake, _: _held(brake)),
    Column(
        "LIFT ENDS IN",
        lambda brake, now: duration.human(brake.lifted_until - now) if brake.lifted_until else None,
        ages=True,
    ),
    Column("LIFTED", lambda brake, _: _lifted(brake)),
)


@site.command("unbrake")
@with_settings
def lift_brake(
    settings: Config,
    name: Annotated[str, typer.Argument(metavar="SITE", help="Name of the site; '' for nodes without a site.")],
    reason: Annotated[str, typer.Option("--reason", help="Reason for lifting the brake, which the history records.")],
    lasts: Annotated[
        str,
        typer.Option(
            "--for",
            metavar="DURATION",
            help="How long the brake stays lifted, at most 24 hours. With 0s, the brake applies again at once.",
        ),
    ] = "1h",
    requested_by: answers.By = None,
) -> None:
    """Lift the brake of a site for some time, so that any number of its nodes may leave service."""
    period = arguments.patience("--for", lasts, most=BRAKE_LIFT_MAX)
    anyio.run(_lift_brake, settings, name, reason, period, requested_by)
    if period:
        typer.echo(f"the brake of site {name or 'none'} is lifted for {duration.human(period)}")
    else:
        typer.echo(f"the brake of site {name or 'none'} applies again")


async def _lift_brake(settings: Config, name: str, reason: str, lasts: timedelta, requested_by: str | None) -> None:
    async with opened(settings) as reached:
        await reached.requests.lift_brake(name, reason=reason, lasts=lasts, requested_by=requested_by)


async def _observed(settings: Config) -> Page[RegionView]:
    """Return the observed regions. If no database responds, print a note and return no region."""
    try:
        async with opened(settings) as reached:
            found = await reached.queries.resources(WantedResources(kind=maas_region.KIND))
            return Page(found.now, tuple(map(_region, found.rows)))
    except FarrierError as error:
        typer.echo(f"the health of regions is unknown: {error}", err=True)
        return Page(wall(), ())


def _region(seen: ResourceView) -> RegionView:
    shared = {"site": seen.name, "state": seen.state, "since": seen.state_entered_at, "last_error": seen.last_error}
    return msgspec.convert({**seen.detail, **shared}, RegionView)


def _by_site(page: Page[RegionView]) -> Mapping[str, RegionView]:
    return {region.site: region for region in page.rows}


def _user(asked: RegionAnswer) -> str | None:
    if asked.username is None:
        return None
    return asked.username if asked.administrator else f"{asked.username} (not an administrator)"


def _facts(each: Site, region: RegionView | None) -> Iterator[tuple[str, Cell]]:
    yield "site", each.name
    if region is not None:
        yield "region", region.state
        yield "events read up to", printing.moment(region.complete_at)
        yield "region's error", region.last_error
    held = msgspec.to_builtins(each, builtin_types=(timedelta,))
    held["agents"]["ca"] = counted(len(each.agents.ca.encode()), "byte")
    held["cloud_init"]["template"] = counted(len(each.cloud_init.template.encode()), "byte")
    del held["name"]
    yield from _flat(held, "")


def _flat(value: Any, path: str) -> Iterator[tuple[str, Cell]]:
    """Yield each setting by its path, except settings that are not set."""
    match value:
        case dict():
            for key, held in value.items():
                yield from _flat(held, f"{path}.{key}" if path else key)
        case [dict(), *_]:
            for number, held in enumerate(value, start=1):
                yield from _flat(held, f"{path} {number}")
        case list() | tuple():
            yield path, ", ".join(map(str, value))
        case timedelta():
            yield path, duration.human(value)
        case None | "":
            return
        case bool():
            yield path, str(value).lower()
        case _:
            yield path, str(value)
