"""The counts of the sink. At the start, the sink has every possible series and no other series."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.openmetrics import parser as openmetrics_parser
from prometheus_client.parser import text_string_to_metric_families
from structlog.testing import capture_logs

from farrier.metrics import definitions
from farrier.metrics.definitions import KindWords, OwnMetric, Vocabulary
from farrier.metrics.families import Definition, Histogram
from farrier.metrics.sink import PrometheusSink
from farrier.model.kinds.measures import Sample
from farrier.model.kinds.spec import KindEdge, KindSpec, KindState
from farrier.model.loop.runs import Failure, Move

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
WIDGET = KindSpec(
    name="widget",
    what="a widget",
    relation="shop.widgets",
    states={state: KindState(why_none="a test") for state in ("new", "used", "worn", "sold")},
    edges=(
        KindEdge("new", "used", "begin"),
        KindEdge("used", "worn", "wear"),
        KindEdge("used", "sold", "a sale", "operator"),
    ),
    initial="new",
    terminal=frozenset({"worn", "sold"}),
    steady="used",
)
WORDS = Vocabulary(
    kinds={"widget": KindWords(spec=WIDGET, errors=("timeout", "internal"), metrics=(PAINT, HEIGHT))},
    services={"press": {"stamp": ("ok", "timeout"), "fold": ("ok",)}},
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


def test_every_series_is_zero_at_the_start(sink: PrometheusSink) -> None:
    """An alert rule would miss the first error if the series appeared only with it."""
    start = samples(sink)
    for series in (
        "farrier_state_entered_total{kind=widget,state=worn}",
        "farrier_state_exited_total{kind=widget,state=new}",
        "farrier_time_in_state_seconds_count{kind=widget,state=new}",
        "farrier_short_stays_total{kind=widget,state=used}",
        "farrier_handler_runs_total{kind=widget,outcome=error}",
        "farrier_handler_duration_seconds_count{kind=widget}",
        "farrier_handler_errors_total{error=timeout,kind=widget}",
        "farrier_wakeups_total{source=notify}",
        "farrier_wake_wait_seconds_count{kind=widget}",
        "farrier_commit_conflicts_total{kind=widget,verdict=lost}",
        "farrier_commit_conflicts_total{kind=widget,verdict=locked}",
        "farrier_steps_cancelled_total{kind=widget}",
        "farrier_rerun_limited_total{kind=widget}",
        "farrier_kind_widget_paint_total{colour=red}",
        "farrier_kind_widget_height_bucket{le=1.0}",
    ):
        assert start[series] == 0
    others = {name for name, value in start.items() if value != 0}
    assert len(others) == 1
    assert others.pop().startswith("farrier_build_info{")


def test_reports_of_the_loop_add_no_series(sink: PrometheusSink) -> None:
    before = samples(sink).keys()
    sink.ran("widget", {"wait": [0.1], "error": [0.2]})
    sink.moved("widget", "w-1", Move("state", "used", "worn", None), 5, "rule: wear")
    sink.waited("widget", [1.0])
    sink.conflicted("widget", "conflict")
    sink.step_cancelled("widget")
    sink.rerun_limited("widget")
    sink.woken("poll")
    assert samples(sink).keys() == before


def test_an_impossible_pair_of_labels_has_no_series(sink: PrometheusSink) -> None:
    there = samples(sink)
    assert "farrier_state_entered_total{kind=widget,state=new}" not in there
    assert "farrier_state_exited_total{kind=widget,state=worn}" not in there
    assert "farrier_time_in_state_seconds_count{kind=widget,state=worn}" not in there
    assert not [series for series in there if series.startswith(("farrier_service", "farrier_handler_errors_by_state"))]


def test_an_operation_has_the_series_of_all_its_results_from_its_first_request_on(sink: PrometheusSink) -> None:
    sink.requested("press", "stamp", "ok", 0.3)
    requests = {series: value for series, value in samples(sink).items() if series.startswith("farrier_service_req")}
    assert requests["farrier_service_requests_total{operation=stamp,result=ok,service=press}"] == 1
    assert requests["farrier_service_requests_total{operation=stamp,result=timeout,service=press}"] == 0
    assert requests["farrier_service_request_duration_seconds_count{operation=stamp,service=press}"] == 1
    assert requests["farrier_service_request_duration_seconds_sum{operation=stamp,service=press}"] == 0.3
    assert not [series for series in requests if "fold" in series]


def test_an_error_is_counted_by_its_class_and_by_the_state_of_its_resource(sink: PrometheusSink) -> None:
    sink.failed("widget", Failure("timeout", "w-1", "new", "painting"))
    sink.failed("widget", Failure("internal", None))
    after = samples(sink)
    assert after["farrier_handler_errors_total{error=timeout,kind=widget}"] == 1
    assert after["farrier_handler_errors_by_state_total{kind=widget,state=new,substate=painting}"] == 1
    assert after["farrier_handler_errors_by_state_total{kind=widget,state=unknown,substate=}"] == 1


@pytest.mark.parametrize(
    ("target", "seconds", "cause", "counted"),
    [
        ("worn", 899.0, "rule: wear", 1),
        ("worn", 900.0, "rule: wear", 0),  # not a short stay
        ("worn", 5.0, "intent 7", 0),
        ("sold", 5.0, "stage: sale", 0),  # only an intent can cause this move
    ],
)
def test_a_short_stay_counts_unless_an_intent_ended_it(
    sink: PrometheusSink, target: str, seconds: float, cause: str, counted: int
) -> None:
    sink.moved("widget", "w-1", Move("state", "used", target, None), seconds, cause)
    sink.moved("widget", "w-1", Move("state", "new", "used", None), 1.0, "rule: begin")
    assert samples(sink)["farrier_short_stays_total{kind=widget,state=used}"] == counted


def exemplars(sink: PrometheusSink) -> dict[str, tuple[str, float]]:
    """The name and the value of each exemplar, by `name[label values]`, as a parser of OpenMetrics reads them."""
    text = openmetrics.generate_latest(sink.registry).decode()  # type: ignore[no-untyped-call]
    return {
        f"{sample.name}{sorted(sample.labels.values())}": (sample.exemplar.labels["name"], sample.exemplar.value)
        for family in openmetrics_parser.text_string_to_metric_families(text)  # type: ignore[no-untyped-call]
        for sample in family.samples
        if sample.exemplar
    }


def test_an_exemplar_names_the_last_resource_that_failed_or_stayed(sink: PrometheusSink) -> None:
    sink.failed("widget", Failure("timeout", "w-1", "new", ""))
    sink.failed("widget", Failure("timeout", "w-2" * 60, "new", ""))
    sink.moved("widget", "w-3", Move("state", "new", "used", None), 10.0, "rule: begin")
    sink.moved("widget", "w-4", Move("state", "new", "used", None), 1e9, "rule: begin")
    found = exemplars(sink)
    assert found["farrier_handler_errors_total['timeout', 'widget']"] == (("w-2" * 60)[:124], 1)
    assert found["farrier_time_in_state_seconds_bucket['10.0', 'new', 'widget']"] == ("w-3", 10)
    assert found["farrier_time_in_state_seconds_bucket['+Inf', 'new', 'widget']"] == ("w-4", 1e9)
    assert len([series for series in found if series.startswith("farrier_time")]) == 2


def test_no_exemplar_names_a_resource_if_metrics_may_not() -> None:
    sink = PrometheusSink(WORDS, named=False)
    sink.failed("widget", Failure("timeout", "w-1", "new", ""))
    sink.moved("widget", "w-3", Move("state", "used", "worn", None), 10.0, "rule: wear")
    assert exemplars(sink) == {}


def test_a_batch_of_runs_is_counted_by_outcome_and_measured(sink: PrometheusSink) -> None:
    sink.ran("widget", {"wait": [0.0001, 0.3], "do_nothing": [0.002] * 5})
    after = samples(sink)
    assert after["farrier_handler_runs_total{kind=widget,outcome=wait}"] == 2
    assert after["farrier_handler_runs_total{kind=widget,outcome=do_nothing}"] == 5
    assert after["farrier_handler_duration_seconds_count{kind=widget}"] == 7
    assert after["farrier_handler_duration_seconds_sum{kind=widget}"] == pytest.approx(0.3101)


def test_a_move_leaves_one_state_and_enters_another_with_the_time_between(sink: PrometheusSink) -> None:
    sink.moved("widget", "w-1", Move("state", None, "new", None), None, "rule: begin")
    sink.moved("widget", "w-1", Move("state", "new", "used", None), 61.5, "rule: begin")
    after = samples(sink)
    assert after["farrier_state_entered_total{kind=widget,state=new}"] == 1
    assert after["farrier_state_exited_total{kind=widget,state=new}"] == 1
    assert after["farrier_state_entered_total{kind=widget,state=used}"] == 1
    assert after["farrier_time_in_state_seconds_bucket{kind=widget,le=60.0,state=new}"] == 0
    assert after["farrier_time_in_state_seconds_bucket{kind=widget,le=300.0,state=new}"] == 1


def test_a_failed_request_is_logged_unless_farrier_cancelled_it(sink: PrometheusSink) -> None:
    with capture_logs() as logs:
        for result in ("ok", "cancelled", "timeout"):
            sink.requested("press", "stamp", result, 30.0)
    line = {"event": "request.failed", "log_level": "warning"}
    assert logs == [{**line, "service": "press", "operation": "stamp", "result": "timeout"}]


def test_an_unknown_label_value_becomes_a_series_without_an_error(sink: PrometheusSink) -> None:
    sink.moved("widget", "w-1", Move("colour", "red", "blue", None), 1, "rule: paint")
    sink.failed("gadget", Failure("timeout", "g-1", "odd", ""))
    sink.requested("oven", "bake", "burnt", 1.0)
    after = samples(sink)
    assert after["farrier_state_entered_total{kind=colour,state=blue}"] == 1
    assert after["farrier_handler_errors_total{error=timeout,kind=gadget}"] == 1
    assert after["farrier_service_requests_total{operation=bake,result=burnt,service=oven}"] == 1


@given(st.lists(st.floats(0, 1000), max_size=60))
def test_a_bucket_counts_the_values_up_to_its_bound(values: list[float]) -> None:
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


def test_names_and_buckets_follow_the_conventions_of_prometheus() -> None:
    found = [value for value in vars(definitions).values() if isinstance(value, Definition)]
    assert len({definition.name for definition in found}) == len(found)
    for definition in found:
        assert re.fullmatch(r"farrier(_[a-z]+)+", definition.name)
        assert not definition.name.endswith("_total")
        assert bool(definition.buckets) == definition.name.endswith("_seconds")
        assert list(definition.buckets) == sorted(definition.buckets)


def test_a_sample_is_added_to_its_counter_or_its_histogram(sink: PrometheusSink) -> None:
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
        ("widget", Sample("paint", {"colour": ["red"]})),  # type: ignore[dict-item] # a handler may do this in spite of the type
        ("widget", Sample("glitter")),
        ("gadget", Sample("paint", {"colour": "red"})),
    ],
)
def test_an_undeclared_sample_adds_no_series_and_is_logged(sink: PrometheusSink, kind: str, sample: Sample) -> None:
    before = samples(sink)
    with capture_logs() as logs:
        sink.sampled(kind, [sample, Sample("paint", {"colour": "blue"})])
    after = samples(sink)
    assert after.keys() == before.keys()
    logged = [(line["event"], line["kind"], line["metric"]) for line in logs]
    assert ("metric.undeclared", kind, sample.metric) in logged
    assert after["farrier_kind_widget_paint_total{colour=blue}"] == (1 if kind == "widget" else 0)
