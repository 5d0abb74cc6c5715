"""`farrier alerts`: prints rules for Prometheus, made from the settings. Needs no database."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from farrier.cli.output import printing
from farrier.cli.settings.connection import with_settings
from farrier.config import Config
from farrier.errors import ConfigError
from farrier.metrics import alerts as rules
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
