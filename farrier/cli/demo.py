"""`farrier demo`: the real daemon over a simulated fleet, on an embedded PostgreSQL, with nothing to set up.

Reads the options, runs `simulation`, and says how it ended. Ctrl-C stops everything in order and leaves
nothing running; a directory of our own is removed, unless something went wrong and it is worth a look.
"""

from __future__ import annotations

import shutil
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import anyio
import msgspec
import typer
from rich.console import Console

from farrier import log
from farrier.errors import ExitCode, FarrierError

if TYPE_CHECKING:
    from farrier.cli.simulation import Options, Summary

# What the extra `demo` installs and this command imports.
_EXTRA = ("bcrypt", "cryptography")


def demo(  # noqa: PLR0913 - one parameter is one option
    nodes: Annotated[int, typer.Option(min=1, max=5000, help="How many nodes the fleet has.")] = 50,
    until_active: Annotated[
        bool,
        typer.Option(
            "--until-active",
            help="End as soon as every node is active and every BMC manageable: exit code 0, else 1 with reasons.",
        ),
    ] = False,
    timeout: Annotated[
        float, typer.Option(min=1, help="Seconds that --until-active may take.", metavar="SECONDS")
    ] = 180,
    directory: Annotated[
        Path | None,
        typer.Option("--dir", help="Keep everything in this directory instead of one that is removed."),
    ] = None,
    http_port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port for metrics, health and views; 0 for any that is free.")
    ] = 0,
    faults: Annotated[
        bool,
        typer.Option(help="Let onboardings fail, and nodes be drained, reimaged, removed. Never with --until-active."),
    ] = True,
    speed: Annotated[
        float, typer.Option(min=1, max=600, help="Seconds that MAAS and its machines have in one second.")
    ] = 60,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON, and nothing else.")] = False,
) -> None:
    """Run a simulated fleet on a PostgreSQL of its own: real daemon, Redfish BMCs, a MAAS, requests by SQL."""
    try:
        from farrier.cli import simulation
    except ModuleNotFoundError as missing:
        if missing.name not in _EXTRA:
            raise
        typer.echo(f"farrier demo needs {missing.name}; run: pip install 'farrier[demo]'", err=True)
        raise typer.Exit(ExitCode.USAGE) from missing
    place = directory or Path(tempfile.mkdtemp(prefix="farrier-demo-"))
    place.mkdir(parents=True, exist_ok=True)
    options = simulation.Options(
        directory=place.absolute(),
        nodes=nodes,
        until_active=until_active,
        timeout=timedelta(seconds=timeout),
        faults=faults,
        http_port=http_port,
        speed=speed,
    )
    code = _run(options, as_json=as_json)
    if directory is None and code is ExitCode.OK:
        shutil.rmtree(place)
    elif directory is None:
        typer.echo(f"kept for a look: {place}", err=True)
    raise typer.Exit(code)


def _run(options: Options, *, as_json: bool) -> ExitCode:
    """Simulate and tell; the daemon's log goes to a file beside the data."""
    from farrier.cli.simulation import simulate
    from farrier.daemon import foreseen

    console = Console(stderr=as_json)
    with open(options.directory / "farrier.log", "a", encoding="utf-8") as lines:
        log.configure(log.Level.INFO, log.Format.JSON, stream=lines)
        try:
            summary = anyio.run(simulate, options, console, backend_options={"use_uvloop": True})
        except (FarrierError, ExceptionGroup) as failure:
            known = foreseen(failure)
            if known is None:
                raise
            typer.echo(f"farrier demo: {known}", err=True)
            return known.exit_code
    if as_json:
        typer.echo(msgspec.json.encode(summary).decode())
    else:
        _tell(summary, console, reasons=options.until_active)
    return ExitCode.OK if summary.ok or not options.until_active else ExitCode.FAILED


def _tell(summary: Summary, console: Console, *, reasons: bool) -> None:
    console.print(
        f"{summary.active} of {summary.nodes} nodes active, {summary.manageable} of {summary.with_bmc} BMCs "
        f"manageable, after {summary.seconds:g} s",
        highlight=False,
        soft_wrap=True,
    )
    for node in summary.missing if reasons else ():
        where = f"{node.status}, {node.management}: " if node.status else ""
        console.print(f"  {node.name}: {where}{node.reason}", highlight=False, soft_wrap=True, markup=False)
