"""The kind `node`: every layer of a node, built from the edges in `edges` and the limits in `sla`, and the
`ACTIONS`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from farrier.model.intents.actions import ACTIONS
from farrier.model.kinds.spec import KindLayer, KindSpec, KindState
from farrier.model.node import edges, layers, sla
from farrier.model.node.layers import NODE, Layer, NodeStatus, WorkflowKind, WorkflowStatus

_TABLES = {
    WorkflowKind.ONBOARDING: "farrier.node_onboardings",
    WorkflowKind.DECOMMISSION: "farrier.node_decommissions",
}

STAGE_LAYERS: Final[Mapping[WorkflowKind, str]] = {kind: f"{kind}_stage" for kind in WorkflowKind}
"""The layer that records the stages of a workflow."""


def _layer(layer: Layer, relation: str = "") -> KindLayer:
    return KindLayer(
        name=layer.value,
        states=sla.DEFAULTS[layer],
        edges=edges.EDGES[layer],
        initial=edges.INITIAL[layer],
        terminal=edges.TERMINAL[layer],
        label=layers.LAYER_KIND[layer],
        key=layer.value,
        relation=relation,
    )


def _stages(kind: WorkflowKind) -> KindLayer:
    """Return the layer of a workflow's stages. Any stage may follow any other stage, because an operator may rerun a
    workflow from its beginning."""
    stages = sla.STAGES[Layer(kind)]
    return KindLayer(
        name=STAGE_LAYERS[kind],
        states={stage: KindState(limit=limit) for stage, limit in stages.items()},
        edges=None,
        initial=frozenset(stages),
        label=STAGE_LAYERS[kind],
        key=f"{kind}.{WorkflowStatus.RUNNING}",
        relation=_TABLES[kind],
        inside=(kind.value, WorkflowStatus.RUNNING.value),
    )


_STATUS = _layer(Layer.STATUS)

SPEC = KindSpec(
    name=NODE,
    what="a node",
    relation="farrier.nodes",
    layer=_STATUS.name,
    key=_STATUS.key,
    states=_STATUS.states,
    edges=edges.EDGES[Layer.STATUS],
    initial=_STATUS.initial,
    terminal=_STATUS.terminal,
    layers=(
        _layer(Layer.MANAGEMENT),
        *(_layer(Layer(kind), relation) for kind, relation in _TABLES.items()),
        *map(_stages, _TABLES),
    ),
    create=None,
    actions={action.value: spec for action, spec in ACTIONS.items()},
    by_model=True,
    steady=NodeStatus.ACTIVE,
)
