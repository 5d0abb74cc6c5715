"""The objects that are made from the configuration, tested without running them."""

from __future__ import annotations

from typing import Any

import pytest

from farrier import wiring
from farrier.config import BmcConfig, BmcHostConfig
from farrier.handlers.maas_region.handler import REGION_KIND
from farrier.handlers.node.kind import NODE_KIND, NodeKind
from farrier.handlers.resource.kind import ResourceKind
from farrier.metrics.sink import PrometheusSink


@pytest.mark.parametrize("kind", [NODE_KIND, REGION_KIND])
def test_every_state_that_a_resource_may_enter_or_leave_is_in_the_vocabulary(
    kind: NodeKind | ResourceKind[Any],
) -> None:
    layers = {layer.name: layer for layer in wiring.vocabulary().kinds[kind.name].spec.every_layer}
    for name, edges in kind.edges.items():
        assert {target for _, target in edges} <= set(layers[name].entered)
        assert {source for source, _ in edges} <= set(layers[name].left)


def test_an_exposition_of_a_fresh_process_stays_small() -> None:
    """Every label has finitely many values; their product must stay small, too."""
    samples = [s for family in PrometheusSink(wiring.vocabulary()).registry.collect() for s in family.samples]
    assert len(samples) < 2000


def test_exceptions_from_the_tls_policy_are_counted() -> None:
    hosts = {
        "BMC-1.example": BmcHostConfig(insecure=True),
        "10.0.0.2": BmcHostConfig(fingerprint="ab" * 32, ciphers="AES256-SHA"),
    }
    assert _counted(BmcConfig(ca_file="/etc/ca.crt", hosts=hosts, ciphers="AES128-SHA")) == [1, 2]
    assert _counted(BmcConfig()) == [0, 0]


def _counted(config: BmcConfig) -> list[float]:
    return [s.value for gauge in wiring.trust_gauges(config) for family in gauge.collect() for s in family.samples]
