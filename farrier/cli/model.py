"""`farrier model`: the state model as this program has it. Needs no database."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from farrier.cli import output
from farrier.model import diagram
from farrier.model.edges import Layer


class Format(StrEnum):
    """How the model is printed."""

    MD = "md"
    MERMAID = "mermaid"
    JSON = "json"


def model(
    form: Annotated[Format, typer.Option("--format", help="Tables, diagrams or data.")] = Format.MD,
    layer: Annotated[Layer | None, typer.Option(help="The diagram of this layer alone, with --format mermaid.")] = None,
) -> None:
    """Print the state model: states, edges, limits, requests, failures."""
    if layer is not None and form is not Format.MERMAID:
        raise typer.BadParameter("--layer goes with --format mermaid; tables and data are of all layers")
    if form is Format.MD:
        typer.echo(diagram.markdown(), nl=False)
    elif form is Format.JSON:
        output.json(diagram.as_json())
    else:
        typer.echo("\n".join(diagram.mermaid(each) for each in ([layer] if layer else Layer)), nl=False)
