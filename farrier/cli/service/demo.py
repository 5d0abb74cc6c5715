"""`farrier demo`: runs the real daemon with a simulated fleet and an embedded PostgreSQL, without any set-up.

The command reads the options, runs `simulation`, and prints the result. Ctrl-C stops all parts in order. The temporary
directory is removed, unless the demo failed, because then its content helps to find the cause.
"""

from __future__ import annotations

import fcntl
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, TextIO

import anyio
import msgspec
import typer
from rich.console import Console

from farrier import log
from farrier.cli.options import arguments
from farrier.errors import ConfigError, ExitCode, FarrierError

if TYPE_CHECKING:
    from farrier.cli.service.simulation import DemoOptions, Summary

# The packages that the extra `demo` installs and this command imports.
_EXTRA = ("bcrypt", "cryptography")


def demo(  # noqa: PLR0913 - one parameter is one option
    nodes: Annotated[int, typer.Option(min=1, max=5000, help="Number of nodes.")] = 50,
    until_active: Annotated[
        bool,
        typer.Option(
            "--until-active",
            help="Exit with 0 as soon as every node is active and every BMC manageable. At the time limit, print the "
            "reasons and exit with 1.",
        ),
    ] = False,
    timeout: Annotated[str, typer.Option(help="Time limit of --until-active.")] = "180s",
    directory: Annotated[
        Path | None,
        typer.Option(
            "--dir", help="Directory for the data. The demo does not remove it. Default: a temporary directory."
        ),
    ] = None,
    http_port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port for the pages and the API; 0 for any free port.")
    ] = 0,
    faults: Annotated[
        bool | None,
        typer.Option(
            "--faults/--no-faults",
            help="Inject failures into onboardings, and drain, reimage and remove nodes. Excludes --until-active.",
        ),
    ] = None,
    speed: Annotated[
        float, typer.Option(min=1, max=600, help="Speed of MAAS and its machines: simulated seconds per real second.")
    ] = 60,
    as_json: Annotated[bool, typer.Option("--json", help="Print only the summary, as JSON.")] = False,
) -> None:
    """Run a simulated fleet: real daemon and PostgreSQL, simulated BMCs, MAAS region, agents and clients."""
    simulation = _simulation()
    if len(str(directory).split()) > 1:
        raise ConfigError(
            f"--dir: {directory} contains a space, but references to credentials cannot contain "
            "spaces; use another directory"
        )
    patience = arguments.patience("--timeout", timeout, least=timedelta(seconds=1))
    injects = _faults(faults, until_active=until_active)
    place = directory or Path(tempfile.mkdtemp(prefix="farrier-demo-"))
    with _usable(place):
        place.mkdir(parents=True, exist_ok=True)
    options = simulation.DemoOptions(
        directory=place.absolute(),
        nodes=nodes,
        until_active=until_active,
        timeout=patience,
        faults=injects,
        http_port=http_port,
        speed=speed,
    )
    code = _run(options, as_json=as_json)
    if not as_json and code is ExitCode.OK:
        _print_next(directory)
    if directory is None and code is ExitCode.OK:
        shutil.rmtree(place)
    elif directory is None:
        typer.echo(f"kept for inspection: {place}", err=True)
    raise typer.Exit(code)


def _faults(chosen: bool | None, *, until_active: bool) -> bool:
    """Return whether to inject failures. Default: yes, unless the demo ends when every node is active."""
    if chosen and until_active:
        raise typer.BadParameter(
            "--until-active cannot be combined with --faults, because faults keep nodes from becoming active"
        )
    return not until_active if chosen is None else chosen


def _simulation() -> ModuleType:
    """Import the module `simulation`, which needs the extra `demo`."""
    try:
        from farrier.cli.service import simulation
    except ModuleNotFoundError as missing:
        if missing.name not in _EXTRA:
            raise
        typer.echo(f"farrier demo requires {missing.name}; run: pip install 'farrier[demo]'", err=True)
        raise typer.Exit(ExitCode.USAGE) from missing
    return simulation


def _run(options: DemoOptions, *, as_json: bool) -> ExitCode:
    """Run the simulation and print its result. The daemon writes its log to a file beside the data."""
    from farrier.cli.service.simulation import simulate
    from farrier.process import foreseen

    console = Console(stderr=as_json)
    with _alone(options.directory) as lines:
        log.configure(log.Level.INFO, log.Format.JSON, stream=lines)
        try:
            summary = anyio.run(simulate, options, console, lines.fileno(), backend_options={"use_uvloop": True})
        except (FarrierError, ExceptionGroup) as failure:
            known = foreseen(failure)
            if known is None:
                raise
            typer.echo(f"farrier demo: {known}", err=True)
            return known.exit_code
    if as_json:
        typer.echo(msgspec.json.encode(summary).decode())
    else:
        _print_summary(summary, console, reasons=options.until_active)
    return ExitCode.OK if summary.ok or not options.until_active else ExitCode.FAILED


@contextmanager
def _alone(directory: Path) -> Iterator[TextIO]:
    """Open and lock the log of the demo: a second demo in the same directory would use the fleet of the first."""
    with _usable(directory):
        log_file = open(directory / "farrier.log", "a", encoding="utf-8")  # noqa: SIM115 - closed below
    with log_file as lines:
        try:
            fcntl.flock(lines, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(
                f"--dir: another demo is running in {directory}; stop it with Ctrl-C, or use another directory"
            ) from None
        yield lines


@contextmanager
def _usable(directory: Path) -> Iterator[None]:
    """Raise ConfigError if the file system refuses the directory."""
    try:
        yield
    except OSError as failure:
        raise ConfigError(
            f"--dir: cannot use {directory}: {failure.strerror}; use a directory that this user may read and write"
        ) from failure


def _print_next(kept: Path | None) -> None:
    """Print the commands to try next. If `kept` is a directory, they use the database that the demo left there."""
    from farrier.cli.service.simulation import DATABASE

    if kept is None:
        steps = (
            ("farrier demo --dir ~/farrier-demo", "run the demo again, and keep its database for other commands"),
            ("farrier run --embedded ~/farrier-data", "run a controller with an empty database"),
            ("farrier --help", "list all commands"),
        )
    else:
        at = f"--embedded {shlex.quote(str(kept / DATABASE))}"
        steps = (
            (f"farrier node list {at}", "list the nodes; nodes above a limit are first"),
            (f"farrier history list --last 1h {at}", "list the changes of nodes, the newest first"),
            (f"farrier run {at}", "continue without the simulation: agents stop reporting, so nodes go offline"),
        )
    typer.echo("next:")
    for command, purpose in steps:
        typer.echo(f"  {command}\n      {purpose}")


def _print_summary(summary: Summary, console: Console, *, reasons: bool) -> None:
    console.print(
        f"{summary.active} of {summary.nodes} nodes active, {summary.manageable} of {summary.with_bmc} BMCs "
        f"manageable, after {summary.seconds:g} s",
        highlight=False,
        soft_wrap=True,
    )
    for node in summary.missing if reasons else ():
        where = f"{node.status}, {node.management}: " if node.status else ""
        console.print(f"  {node.name}: {where}{node.reason}", highlight=False, soft_wrap=True, markup=False)
