"""`farrier model`: prints the state model of this program. Needs no database."""

from __future__ import annotations

import re
import textwrap
from enum import StrEnum
from typing import Annotated, assert_never

import typer

from farrier.cli.output import printing
from farrier.config import kinds
from farrier.model import markdown
from farrier.model.intents.params import describe
from farrier.model.kinds import diagram as kind_diagram
from farrier.model.kinds.built_in import BUILT_IN
from farrier.model.kinds.spec import KindLayer, KindSpec
from farrier.model.node.edges import NODE, Layer
from farrier.model.views import diagram

# The length of a line on the narrowest terminal.
_LINE = 80


class ModelFormat(StrEnum):
    """The output format of the model."""

    TEXT = "text"
    MD = "md"
    MERMAID = "mermaid"
    JSON = "json"


def model(
    form: Annotated[
        ModelFormat,
        typer.Option(
            "--format",
            help="Output format: text prints tables, md prints tables with diagrams, mermaid prints only the diagrams, "
            "json prints the model as data.",
        ),
    ] = ModelFormat.TEXT,
    layer: Annotated[
        Layer | None, typer.Option(help="With --format mermaid, print only the diagram of this layer.")
    ] = None,
    kind: Annotated[
        str, typer.Option(help="Print the model of this kind: node, network_segment …, or package.module:NAME.")
    ] = NODE,
) -> None:
    """Print the state model: states, edges, limits, actions, failure classes."""
    if layer is not None and (form is not ModelFormat.MERMAID or kind != NODE):
        raise typer.BadParameter("--layer requires --format mermaid and the kind node")
    spec = None if kind == NODE else _spec(kind)
    match form:
        case ModelFormat.TEXT:
            _print(_markdown(spec))
        case ModelFormat.MD:
            typer.echo(_markdown(spec), nl=False)
        case ModelFormat.JSON:
            printing.json(diagram.as_json() if spec is None else _as_json(spec))
        case ModelFormat.MERMAID if spec is None:
            typer.echo("\n".join(diagram.mermaid(each) for each in ([layer] if layer else Layer)), nl=False)
        case ModelFormat.MERMAID:
            typer.echo(kind_diagram.mermaid(spec), nl=False)
        case _ as never:
            assert_never(never)


def _markdown(spec: KindSpec | None) -> str:
    return diagram.markdown() if spec is None else kind_diagram.markdown(spec)


def _spec(kind: str) -> KindSpec:
    if ":" in kind:
        (spec,) = kinds.specs([kind])
        return spec
    known = {spec.name: spec for spec in BUILT_IN}
    if kind not in known:
        raise typer.BadParameter(
            f"no kind {kind!r}; expected one of {', '.join((NODE, *known))}, or package.module:NAME for a kind of "
            "another package"
        )
    return known[kind]


def _print(text: str) -> None:
    """Print the headings, sentences and tables of a text in Markdown, without its diagrams."""
    blocks = re.sub(r"```.*?```\n", "", text, flags=re.DOTALL).split("\n\n")
    for block in filter(None, (block.strip() for block in blocks)):
        rows = markdown.rows_of(block)
        if rows is not None:
            printing.table(rows[0], ([cell.replace("`", "") for cell in row] for row in rows[1:]))
            typer.echo()
        elif block.startswith("## "):
            typer.secho(block.removeprefix("## "), bold=True)
        else:
            typer.echo(textwrap.fill(block, _LINE))


def _as_json(spec: KindSpec) -> dict[str, object]:
    return {
        "kind": spec.name,
        **_layer_as_json(spec.every_layer[0]),
        "layers": {layer.name: _layer_as_json(layer) for layer in spec.every_layer[1:]},
        "actions": {
            name: {
                "description": action.description,
                "params": describe(action.params),
                "states": spec.states_accepting(name),
                "instead": action.instead,
            }
            for name, action in spec.requests.items()
        },
    }


def _layer_as_json(layer: KindLayer) -> dict[str, object]:
    return {
        "states": {name: {"limit": state.limit, "why_none": state.why_none} for name, state in layer.states.items()},
        "edges": layer.edges,
        "initial": sorted(layer.first),
        "terminal": sorted(layer.terminal),
    }
