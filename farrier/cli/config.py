"""`farrier config`: prints every setting, in the form of a settings file."""

from __future__ import annotations

import typer

from farrier import config as settings
from farrier.cli import output


def config(as_json: output.AsJson = False) -> None:
    """Print every setting with its default and description."""
    if as_json:
        output.json(settings.settings())
    else:
        typer.echo(settings.as_toml(), nl=False)
