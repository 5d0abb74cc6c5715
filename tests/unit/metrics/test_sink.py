"""The counts of the metrics sink, and that every series exists before the first event."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from structlog.testing import capture_logs

from farrier.metrics import definitions
from farrier.metrics.definitions import KindWords, OwnMetric, ServiceWords, Vocabulary
from farrier.metrics.families import Definition, Histogram
from farrier.metrics.sink import PrometheusSink
from farrier.model.measures import Sample

PAINT = OwnMetric(
    sample="paint",
    definition=Definition("farrier_kind_widget_paint", "Litres.", ("colour",)),
    series=(("red",), ("blue",)),
)
HEIGHT = OwnMetric(
    sample="height",
    definition=Definition("farrier_kind_widget_height", "Metres.", (), (1.0, 2.0)),
    series=((),),
)
WORDS = Vocabulary(
    kinds={
        "widget": KindWords(
            layers={"state": ("widget", ("new", "done"))},
            labels=(("new", ""), ("new", "painting")),
            metrics=(PAINT, HEIGHT),
        )
    },
    services={"press": ServiceWords(operations=("stamp",), results=("ok", "timeout"))},
)


@pytest.fixture
def sink() -> PrometheusSink:
    return PrometheusSink(WORDS)


def samples(sink: PrometheusSink) -> dict[str, float]:
    """Every line of the exposition, as `name{sorted labels}` → value."""
    found = {}
    for family in text_string_to_metric_families(generate_latest(sink.registry).decode()):
        for sample in family.samples:
            labels = ",".join(f"{key}={value}" for key, value in sorted(sample.labels.items()))
            found[f"{sample.name}{{{labels}}}"] = sample.value
    return found


def test_every_series_stands_at_zero_before_anything_happened(sink: PrometheusSink) -> None:
    """An alert rule would miss the first error if the series appeared only with it."""
    start = samples(sink)
    for series in (
        "farrier_state_entered_total{kind=widget,state=new}",
        "farrier_state_exited_total{kind=widget,state=done}",
        "farrier_time_in_state_seconds_count{kind=widget,state=new}",
        "farrier_handler_runs_total{kind=widget,outcome=error}",
        "farrier_handler_duration_seconds_count{kind=widget}",
        "farrier_handler_errors_total{error=timeout,kind=widget,state=new,substate=painting}",
        "farrier_handler_errors_total{error=undecodable_state,kind=widget,state=unknown,substate=}",
        "farrier_wakeups_total{source=notify}",
        "farrier_wake_wait_seconds_count{kind=widget}",
        "farrier_commit_conflicts_total{kind=widget,verdict=lost}",
        "farrier_steps_cut_total{kind=widget}",
        "farrier_rerun_limited_total{kind=widget}",
        "farrier_kind_widget_paint_total{colour=red}",
        "farrier_kind_widget_height_bucket{le=1.0}",
        "farrier_service_requests_total{operation=stamp,result=timeout,service=press}",
        "farrier_service_request_duration_seconds_count{operation=stamp,service=press}",
    ):
        assert start[series] == 0
    others = {name for name, value in start.items() if value != 0}
    assert len(others) == 1
    assert others.pop().startswith("farrier_build_info{")


def test_what_was_reported_makes_no_series_that_was_not_there(sink: PrometheusSink) -> None:
    before = samples(sink).keys()
    sink.ran("widget", {"wait": [0.1], "error": [0.2]})
    sink.failed("widget", "new", "painting", "timeout")
    sink.moved("widget", "state", "new", "done", 5)
    sink.waited("widget", [1.0])
    sink.conflicted("widget", "conflict")
    sink.step_cut("widget")
    sink.rerun_limited("widget")
    sink.woken("poll")
    sink.requested("press", "stamp", "ok", 0.3)
    assert samples(sink).keys() == before


def test_a_batch_of_runs_is_counted_by_outcome_and_measured(sink: PrometheusSink) -> None:
    sink.ran("widget", {"wait": [0.0001, 0.3], "do_nothing": [0.002] * 5})
    after = samples(sink)
    assert after["farrier_handler_runs_total{kind=widget,outcome=wait}"] == 2
    assert after["farrier_handler_runs_total{kind=widget,outcome=do_nothing}"] == 5
    assert after["farrier_handler_duration_seconds_count{kind=widget}"] == 7
    assert after["farrier_handler_duration_seconds_sum{kind=widget}"] == pytest.approx(0.3101)


def test_a_move_leaves_one_state_and_enters_another_with_the_time_between(sink: PrometheusSink) -> None:
    sink.moved("widget", "state", None, "new", None)
    sink.moved("widget", "state", "new", "done", 61.5)
    after = samples(sink)
    assert after["farrier_state_entered_total{kind=widget,state=new}"] == 1
    assert after["farrier_state_exited_total{kind=widget,state=new}"] == 1
    assert after["farrier_state_entered_total{kind=widget,state=done}"] == 1
    assert after["farrier_time_in_state_seconds_bucket{kind=widget,le=60.0,state=new}"] == 0
    assert after["farrier_time_in_state_seconds_bucket{kind=widget,le=300.0,state=new}"] == 1


def test_a_request_is_counted_by_result_and_measured(sink: PrometheusSink) -> None:
    sink.requested("press", "stamp", "timeout", 30.0)
    after = samples(sink)
    assert after["farrier_service_requests_total{operation=stamp,result=timeout,service=press}"] == 1
    assert after["farrier_service_request_duration_seconds_sum{operation=stamp,service=press}"] == 30


def test_a_label_that_nobody_foresaw_becomes_a_series_and_no_error(sink: PrometheusSink) -> None:
    sink.moved("widget", "colour", "red", "blue", 1)
    sink.failed("gadget", "odd", "", "timeout")
    assert samples(sink)["farrier_state_entered_total{kind=colour,state=blue}"] == 1


@given(st.lists(st.floats(0, 1000), max_size=60))
def test_a_bucket_holds_what_is_at_most_its_bound(values: list[float]) -> None:
    histogram = Histogram(Definition("h", "h", ("l",), (0.5, 10.0)))
    histogram.observe(("x",), values[:20])
    histogram.observe(("x",), values[20:])
    (family,) = histogram.collect()
    buckets = {s.labels["le"]: s.value for s in family.samples if s.name == "h_bucket"}
    assert buckets == {
        "0.5": sum(value <= 0.5 for value in values),
        "10.0": sum(value <= 10.0 for value in values),
        "+Inf": len(values),
    }


def test_names_and_labels_are_spelled_as_prometheus_wants_them() -> None:
    found = [value for value in vars(definitions).values() if isinstance(value, Definition)]
    assert len({definition.name for definition in found}) == len(found)
    for definition in found:
        assert re.fullmatch(r"farrier(_[a-z]+)+", definition.name)
        assert not definition.name.endswith("_total")
        assert bool(definition.buckets) == definition.name.endswith("_seconds")
        assert list(definition.buckets) == sorted(definition.buckets)


def test_a_sample_is_added_to_its_counter_or_put_into_its_histogram(sink: PrometheusSink) -> None:
    sink.sampled(
        "widget",
        [Sample("paint", {"colour": "red"}, 2.5), Sample("paint", {"colour": "red"}), Sample("height", {}, 1.5)],
    )
    after = samples(sink)
    assert after["farrier_kind_widget_paint_total{colour=red}"] == 3.5
    assert after["farrier_kind_widget_paint_total{colour=blue}"] == 0
    assert after["farrier_kind_widget_height_bucket{le=1.0}"] == 0
    assert after["farrier_kind_widget_height_bucket{le=2.0}"] == 1
    assert after["farrier_kind_widget_height_sum{}"] == 1.5


@pytest.mark.parametrize(
    ("kind", "sample"),
    [
        ("widget", Sample("paint", {"colour": "green"})),
        ("widget", Sample("paint", {"colour": "red", "gpu": "7"})),
        ("widget", Sample("paint")),
        ("widget", Sample("paint", {"colour": ["red"]})),  # type: ignore[dict-item] # what a handler may do all the same
        ("widget", Sample("glitter")),
        ("gadget", Sample("paint", {"colour": "red"})),
    ],
)
def test_a_sample_that_is_not_declared_makes_no_series_and_is_told_in_the_log(
    sink: PrometheusSink, kind: str, sample: Sample
) -> None:
    before = samples(sink)
    with capture_logs() as logs:
        sink.sampled(kind, [sample, Sample("paint", {"colour": "blue"})])
    after = samples(sink)
    assert after.keys() == before.keys()
    told = [(line["event"], line["kind"], line["metric"]) for line in logs]
    assert ("metric.undeclared", kind, sample.metric) in told
    assert after["farrier_kind_widget_paint_total{colour=blue}"] == (1 if kind == "widget" else 0)
