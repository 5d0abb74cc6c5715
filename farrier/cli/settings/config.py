"""`farrier config`: prints every setting, in the form of a settings file, and checks a settings file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import anyio
import msgspec
import typer

from farrier import config as settings
from farrier.cli.output import printing
from farrier.cli.settings.connection import with_settings
from farrier.cli.site import secret_check
from farrier.cli.site.secret_check import Unreadable
from farrier.config import Config, site_files, token_file
from farrier.config.sites import Sites
from farrier.errors import ExitCode
from farrier.log import mask_urls
from farrier.model.plural import counted

config = typer.Typer(
    add_completion=False,
    invoke_without_command=True,
    help="Print every setting with its default and description.",
)


@config.callback()
def print_all(ctx: typer.Context, as_json: printing.AsJson = False) -> None:
    """Print every setting with its default and description."""
    if ctx.invoked_subcommand is not None:
        return
    if as_json:
        printing.json(settings.settings())
    else:
        typer.echo(settings.as_toml(), nl=False)


@config.command("check")
@with_settings
def check(given: Config, as_json: printing.AsJson = False) -> None:
    """Check the settings, kinds, sites, tokens and certificates that farrier would use, and show the settings that
    differ from their defaults. Also check that this process can read the secrets of the settings and of the sites.
    Requires no database. Exit code 2: something is invalid; 1: a secret cannot be read. An expired certificate, and
    an exception from the TLS policy of BMCs, cause only a warning."""
    sites = anyio.run(_read, given)
    missing = anyio.run(partial(secret_check.unreadable, given, sites, of_settings=True))
    changed = dict(_changed(given))
    if as_json:
        printing.json({"changed": changed, "sites": sorted(sites), "unreadable": missing})
    else:
        _show(changed, sites, missing)
    for name, permits in given.bmc.tls_exceptions():
        typer.echo(f"farrier: warning: {name}: {permits}", err=True)
    if missing:
        raise typer.Exit(ExitCode.FAILED)


def _show(changed: Mapping[str, Any], sites: Sites, missing: Iterable[Unreadable]) -> None:
    printing.facts((name, printing.text(value)) for name, value in changed.items())
    typer.echo(
        f"the settings are valid; {counted(len(changed), 'setting')} with a value other than the default; "
        f"sites: {', '.join(sites) or 'none'}"
    )
    for each in missing:
        typer.echo(f"farrier: cannot read the secret of {each}", err=True)


async def _read(given: Config) -> Sites:
    """Read everything that the daemon reads before it connects to the database. Raises ConfigError."""
    from farrier.io.connections import pool  # these imports take a second, and --help need not wait for them
    from farrier.io.connections.embedded import wheel_binaries
    from farrier.services.http import trust
    from farrier.web.server.tls import Certificate
    from farrier.wiring import kinds, storage
    from farrier.wiring.traces import tracing
    from farrier.wiring.vocabulary import vocabulary

    vocabulary(kinds.specs_of(kinds.extensions(given.controller.kinds)))
    for of_bmcs in (given.bmc, *given.bmc.hosts.values()):
        trust.policy_of(of_bmcs)
    database = await storage.located(given.database)
    if database.dsn:
        await pool.require_valid(database.dsn)
    if given.database.embedded:
        wheel_binaries()
    token_file.load(given.http.tokens_file)
    for section, of_server in (("http", given.http), ("agents", given.agents)):
        cert = of_server.tls_cert
        if cert and (fault := Certificate(cert, of_server.tls_key, section=section).fault()) is not None:
            typer.echo(f"farrier: warning: clients refuse {section}.tls_cert {cert!r}: {fault}", err=True)
    async with tracing(given.traces):
        return site_files.load(given.sites.directory, given.agents)


def _changed(given: Config) -> Iterator[tuple[str, Any]]:
    """Return name and value of each setting that differs from its default."""
    usual = Config()
    for section in Config.__struct_fields__:
        mine, default = getattr(given, section), getattr(usual, section)
        for field in msgspec.structs.fields(type(mine)):
            value = getattr(mine, field.name)
            if value != getattr(default, field.name):
                yield (
                    f"{section}.{field.encode_name}",
                    mask_urls(value) if isinstance(value, str) else printing.plain(value),
                )
