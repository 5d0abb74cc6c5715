"""A kind's own metrics: valid declarations in a spec, and valid samples."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from farrier.errors import ConfigError, HandlerGarbage
from farrier.model.kinds.measures import SERIES_AT_MOST, KindMetric, Sample
from farrier.wiring.vocabulary import vocabulary
from tests.support.crates import SPEC

MADE = KindMetric(
    name="made", help="Crates made.", type="counter", labels={"wood": ("oak", "pine"), "lid": ("no", "yes")}
)
MANY = tuple(map(str, range(SERIES_AT_MOST + 1)))


def test_a_metric_has_a_series_for_each_combination_of_its_labels() -> None:
    assert MADE.series == (("oak", "no"), ("oak", "yes"), ("pine", "no"), ("pine", "yes"))
    assert KindMetric(name="made", help="Crates made.", type="counter").series == ((),)


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"name": "Made"}, "its name must match"),
        ({"name": "made_total"}, "must not end in"),
        ({"name": "made_bucket"}, "must not end in"),
        ({"help": " "}, "`help` is missing"),
        ({"type": "gauge"}, "counter or histogram; this one is 'gauge'"),
        ({"buckets": (1.0,)}, "a counter must not have buckets"),
        ({"type": "histogram"}, "upper bounds in ascending order"),
        ({"type": "histogram", "buckets": (2.0, 1.0)}, "upper bounds in ascending order"),
        ({"type": "histogram", "buckets": (1.0, float("inf"))}, "bounds of buckets must be finite"),
        ({"labels": {"le": ("1",)}}, "label 'le' must match"),
        ({"labels": {"job": ("1",)}}, "label 'job' must match"),
        ({"labels": {"wood": ()}}, "label wood needs a tuple of different"),
        ({"labels": {"wood": "oak"}}, "label wood needs a tuple of different"),
        ({"labels": {"wood": ("oak", "oak")}}, "label wood needs a tuple of different"),
        ({"labels": {"wood": ("",)}}, "label wood needs a tuple of different"),
        ({"labels": {"wood": MANY}}, f"the limit is {SERIES_AT_MOST}; give the labels fewer values"),
    ],
)
def test_an_invalid_metric_is_refused_when_the_spec_is_made(fields: dict[str, Any], fault: str) -> None:
    wrong = msgspec.structs.replace(MADE, **fields)
    with pytest.raises(ConfigError, match="kind crate: ") as caught:
        msgspec.structs.replace(SPEC, metrics=(wrong,))
    assert fault in str(caught.value)


def test_a_metric_that_is_declared_twice_is_refused() -> None:
    with pytest.raises(ConfigError, match="metric made is declared twice"):
        msgspec.structs.replace(SPEC, metrics=(MADE, MADE))


def test_two_kinds_do_not_share_a_series() -> None:
    other = msgspec.structs.replace(MADE, name="lid_made")
    one = msgspec.structs.replace(SPEC, metrics=(other,))
    two = msgspec.structs.replace(SPEC, name="crate_lid", metrics=(MADE,))
    assert {"crate", "crate_lid"} <= vocabulary([one, msgspec.structs.replace(two, metrics=())]).kinds.keys()
    with pytest.raises(ConfigError, match="farrier_kind_crate_lid_made_total; rename one"):
        vocabulary([one, two])


@pytest.mark.parametrize("value", [-1, float("nan"), float("inf")])
def test_a_sample_that_is_negative_or_not_finite_is_refused(value: float) -> None:
    with pytest.raises(HandlerGarbage, match=r"a Sample of made whose value is .*; expected a number of at least 0"):
        Sample("made", {}, value)
