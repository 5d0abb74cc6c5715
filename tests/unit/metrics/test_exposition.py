"""The format of the exposition: the one that the client prefers."""

from __future__ import annotations

import pytest
from prometheus_client.openmetrics import parser

from farrier.metrics.sink import PrometheusSink
from farrier.model.runs import Failure
from farrier.web import exposition
from farrier.wiring.vocabulary import vocabulary

COUNTED = b'farrier_handler_errors_total{error="timeout",kind="node"} 1.0'


@pytest.fixture(scope="module")
def sink() -> PrometheusSink:
    sink = PrometheusSink(vocabulary())
    sink.failed("node", Failure("timeout", "gpu-1", "active", ""))
    return sink


@pytest.mark.parametrize(
    "accept",
    [
        "application/openmetrics-text; version=1.0.0",
        "Application/OpenMetrics-Text",
        "application/openmetrics-text;version=1.0.0;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
        "application/openmetrics-text;version=x;q=high",
    ],
)
def test_a_client_that_prefers_openmetrics_gets_exemplars(sink: PrometheusSink, accept: str) -> None:
    response = exposition.response(sink.registry, accept)
    assert response.headers["content-type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    assert COUNTED + b' # {name="gpu-1"} 1.0\n' in bytes(response.body)
    assert list(parser.text_string_to_metric_families(bytes(response.body).decode()))  # type: ignore[no-untyped-call]


@pytest.mark.parametrize(
    "accept",
    [
        "",
        "*/*",
        ";;,q=1",
        "text/plain;version=x",
        "text/plain;version=0.0.4;q=0.6,application/openmetrics-text;version=1.0.0;q=0.5",
        "application/openmetrics-text;q=0",
    ],
)
def test_any_other_client_gets_the_text_of_prometheus(sink: PrometheusSink, accept: str) -> None:
    response = exposition.response(sink.registry, accept)
    assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert COUNTED + b"\n" in bytes(response.body)
