"""Failures of workflows: each is counted once, by the stage and the class of the failure."""

from __future__ import annotations

from farrier.metrics.sink import PrometheusSink
from farrier.wiring.vocabulary import vocabulary
from tests.support import paths
from tests.support.site import Site

FIRST = "farrier_workflow_failures_total"


def counted(site: Site) -> list[tuple[str, ...]]:
    return [tuple(sample.labels.values()) for sample in site.ledger.samples]


def series(sink: PrometheusSink) -> dict[tuple[str, ...], float]:
    return {
        tuple(sample.labels.values()): sample.value
        for family in sink.registry.collect()
        for sample in family.samples
        if sample.name == FIRST
    }


async def test_a_stage_that_fails_for_good_is_counted_once_though_its_stop_takes_several_edges(site: Site) -> None:
    await paths.drain_that_fails_for_good(site)
    assert counted(site) == [("decommission", "drain_node", "task_failed")]


async def test_a_workflow_that_an_operator_freezes_is_counted_as_operator_request(site: Site) -> None:
    await paths.drain_that_an_operator_freezes(site)
    assert counted(site) == [("decommission", "drain_node", "operator_request")]


async def test_a_failure_that_is_tried_again_is_counted_each_time(site: Site) -> None:
    machine = await paths.uninstall_that_fails(site)
    first = counted(site)
    assert first == [("decommission", "remove_gpuaas_node_record", "task_failed")]
    await machine.asked("mark_manual_intervention_required", reason="looked at")
    assert counted(site) == [*first, ("decommission", "remove_gpuaas_node_record", "operator_request")]


async def test_a_workflow_that_ends_well_counts_no_failure(site: Site) -> None:
    await paths.drained(site)
    assert counted(site) == []


async def test_every_failure_that_can_be_counted_has_its_series_from_the_start(site: Site) -> None:
    await paths.uninstall_that_fails(site)
    sink = PrometheusSink(vocabulary())
    before = series(sink)
    assert set(before.values()) == {0}
    sink.sampled("node", site.ledger.samples)
    after = series(sink)
    assert after.keys() == before.keys()
    assert sum(after.values()) == 1
