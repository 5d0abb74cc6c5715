"""`farrier alerts` and `farrier dashboard`: print rules for Prometheus, made from the settings, and Grafana dashboards.
Both need no database."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from farrier.cli.output import printing
from farrier.cli.settings.connection import with_settings
from farrier.config import Config
from farrier.errors import ConfigError
from farrier.metrics import alerts as rules
from farrier.metrics import dashboards
from farrier.metrics.runbooks import Runbooks


@with_settings
def alerts(
    settings: Config,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="File to write. Default: standard output.")] = None,
    as_json: printing.AsJson = False,
) -> None:
    """Print alert rules for Prometheus, generated from the limits and periods of the settings."""
    made = rules.exposition(rules.groups(settings), runbooks=Runbooks.at(settings.metrics.runbooks_url))
    text = f"{msgspec.json.format(msgspec.json.encode(made), indent=2).decode()}\n" if as_json else rules.yaml(made)
    if out is None:
        typer.echo(text, nl=False)
        return
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"--out: cannot write {out}: {error.strerror}") from error


@with_settings
def dashboard(
    settings: Config,
    name: Annotated[
        str | None, typer.Argument(help="Print this dashboard. With --out, write only this dashboard.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Directory to write to. If it does not exist, farrier creates it."),
    ] = None,
    listing: Annotated[bool, typer.Option("--list", help="List the dashboards.")] = False,
    pages: Annotated[
        str,
        typer.Option(
            metavar="URL",
            help="Base URL of farrier's web pages, as browsers reach them. Links to nodes begin with this URL.",
        ),
    ] = dashboards.DEFAULTS[dashboards.PAGES],
    as_json: printing.AsJson = False,
) -> None:
    """Print one dashboard for Grafana, or write all of them to a directory."""
    if name is not None and name not in dashboards.NAMES:
        raise typer.BadParameter(f"no dashboard is named {name!r}; expected one of {', '.join(dashboards.NAMES)}")
    load = partial(dashboards.load, pages=pages, runbooks=Runbooks.at(settings.metrics.runbooks_url))
    if listing:
        _list(as_json=as_json)
    elif out is not None:
        _write((name,) if name else dashboards.NAMES, out, load, as_json=as_json)
    elif name is not None:
        printing.json(load(name))
    else:
        raise typer.BadParameter(f"give one of {', '.join(dashboards.NAMES)}, or write all with --out DIR")


def _list(*, as_json: bool) -> None:
    boards = {name: dashboards.load(name) for name in dashboards.NAMES}
    if as_json:
        printing.json(
            [{"name": name, "title": it["title"], "answers": it["description"]} for name, it in boards.items()]
        )
    else:
        rows = ((name, board["title"], board["description"]) for name, board in boards.items())
        printing.table(("NAME", "TITLE", "ANSWERS"), rows)


def _write(names: tuple[str, ...], out: Path, load: Callable[[str], Any], *, as_json: bool) -> None:
    written = {name: out / f"farrier-{name}.json" for name in names}
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name, path in written.items():
            path.write_bytes(msgspec.json.format(msgspec.json.encode(load(name)), indent=1))
    except OSError as error:
        raise ConfigError(f"--out: cannot write {out}: {error.strerror}") from error
    if as_json:
        printing.json([{"name": name, "path": str(path)} for name, path in written.items()])
    else:
        printing.table(("NAME", "FILE"), ((name, str(path)) for name, path in written.items()))
