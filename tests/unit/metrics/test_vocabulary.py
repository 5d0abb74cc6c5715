"""Which series a process has at its start: those that the model permits, and none for an impossible pair of labels."""

from __future__ import annotations

from collections import defaultdict

import pytest

from farrier.config import BmcConfig, BmcHostConfig
from farrier.metrics.sink import PrometheusSink
from farrier.model.kinds.built_in import BUILT_IN
from farrier.model.loop.runs import Move
from farrier.model.node import spec as node_spec
from farrier.wiring.vocabulary import trust_gauges, vocabulary
from tests.support import crates

SPECS = (node_spec.SPEC, *BUILT_IN)
LAYERS = {layer.label: layer for spec in SPECS for layer in spec.every_layer}


@pytest.fixture(scope="module")
def there() -> dict[str, set[tuple[str, ...]]]:
    """The label values of each series, by name."""
    found = defaultdict(set)
    for family in PrometheusSink(vocabulary()).registry.collect():
        for sample in family.samples:
            found[sample.name].add(tuple(sample.labels.values()))
    return found


def test_only_sources_of_edges_have_a_series_of_exits(there: dict[str, set[tuple[str, ...]]]) -> None:
    left = {(label, source) for label, layer in LAYERS.items() for source, _ in layer.pairs}
    assert there["farrier_state_exited_total"] == left
    assert there["farrier_time_in_state_seconds_count"] == left


def test_only_targets_of_edges_and_first_states_of_workflows_have_a_series_of_entries(
    there: dict[str, set[tuple[str, ...]]],
) -> None:
    entered = {(label, target) for label, layer in LAYERS.items() for _, target in layer.pairs}
    assert there["farrier_state_entered_total"] == entered | {("onboarding", "pending"), ("decommission", "pending")}


def test_a_kind_has_the_errors_of_the_services_that_it_calls_and_no_others(
    there: dict[str, set[tuple[str, ...]]],
) -> None:
    of_services = {"bmc", "maas", "ufm", "service", "credential", "simulator"}
    errors = defaultdict(set)
    for kind, error in there["farrier_handler_errors_total"]:
        errors[kind].add(error)
    assert {kind: of & of_services for kind, of in errors.items()} == {
        "node": {"bmc", "maas", "credential"},
        "maas_region": {"maas", "credential"},
        "network_segment": set(),
        "ib_partition": {"ufm", "credential"},
    }
    assert all(of >= {"timeout", "internal", "illegal_edge"} for of in errors.values())


def test_a_kind_of_another_package_may_call_any_service() -> None:
    assert {"service", "credential", "timeout"} <= set(vocabulary([crates.SPEC]).kinds["crate"].errors)


def test_only_the_normal_states_of_kinds_have_short_stays(there: dict[str, set[tuple[str, ...]]]) -> None:
    assert there["farrier_short_stays_total"] == {("node", "active"), ("maas_region", "observing")}


def test_a_drain_of_a_node_is_not_counted_as_a_short_stay() -> None:
    sink = PrometheusSink(vocabulary())
    for target in ("draining", "quarantined"):
        sink.moved("node", "gpu-1", Move("status", "active", target, None), 5.0, "rule: any")
    assert sink.registry.get_sample_value("farrier_short_stays_total", {"kind": "node", "state": "active"}) == 1


def test_an_operation_has_only_the_results_that_its_requests_may_have() -> None:
    services = vocabulary().services
    assert "foreign_owner" not in services["maas"]["deploy"]  # farrier refuses to send such a request
    assert "identity_mismatch" not in services["bmc"]["system"]  # found by comparing, after the request
    assert "absent" in services["ufm"]["pkey"]
    assert "absent" not in services["ufm"]["list_ports"]
    assert "missing" in services["vault"]["read"]
    assert "missing" not in services["vault"]["look_up_token"]
    for operations in services.values():
        assert all(
            {"ok", "cancelled", "unreachable", "timeout", "tls", "protocol"} <= set(o) for o in operations.values()
        )


def test_an_exposition_of_a_fresh_process_stays_small() -> None:
    """Every label has finitely many values; their product must stay small, too."""
    samples = [s for family in PrometheusSink(vocabulary()).registry.collect() for s in family.samples]
    assert len(samples) < 2000


def test_exceptions_from_the_tls_policy_are_counted() -> None:
    hosts = {
        "BMC-1.example": BmcHostConfig(insecure=True),
        "10.0.0.2": BmcHostConfig(fingerprint="ab" * 32, ciphers="AES256-SHA"),
    }
    assert _counted(BmcConfig(ca_file="/etc/ca.crt", hosts=hosts, ciphers="AES128-SHA")) == [1, 2]
    assert _counted(BmcConfig()) == [0, 0]


def _counted(config: BmcConfig) -> list[float]:
    return [s.value for gauge in trust_gauges(config) for family in gauge.collect() for s in family.samples]
