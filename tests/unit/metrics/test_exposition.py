"""The format of the exposition: the one that the client prefers."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import anyio
import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.openmetrics import parser
from prometheus_client.registry import Collector
from typing_extensions import override

from farrier.metrics.sink import PrometheusSink
from farrier.model.loop.runs import Failure
from farrier.web.server.probes import Exposition
from farrier.wiring.vocabulary import vocabulary
from tests.support.clock import HandClock

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
async def test_a_client_that_prefers_openmetrics_gets_exemplars(sink: PrometheusSink, accept: str) -> None:
    response = await Exposition(sink.registry).response(accept)
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
async def test_any_other_client_gets_the_text_of_prometheus(sink: PrometheusSink, accept: str) -> None:
    response = await Exposition(sink.registry).response(accept)
    assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert COUNTED + b"\n" in bytes(response.body)


class Slow(Collector):
    """A collector that takes time, and counts its calls."""

    def __init__(self, clock: HandClock, takes: timedelta) -> None:
        self.calls = 0
        self._clock = clock
        self._takes = takes

    @override
    def collect(self) -> Iterator[GaugeMetricFamily]:
        self.calls += 1
        self._clock.advance(self._takes)
        yield GaugeMetricFamily("calls", "Number of calls.", value=self.calls)


def slow(takes: timedelta) -> tuple[Slow, Exposition]:
    clock, registry = HandClock(), CollectorRegistry(auto_describe=False)
    collector = Slow(clock, takes)
    registry.register(collector)
    collector.calls = 0
    return collector, Exposition(registry, clock)


async def test_clients_that_ask_at_the_same_time_get_one_text() -> None:
    collector, shown = slow(timedelta(0))
    async with anyio.create_task_group() as group:
        for _ in range(100):
            group.start_soon(shown.response, "")
    assert collector.calls == 1


async def test_each_client_gets_a_text_that_was_generated_after_its_request() -> None:
    _, shown = slow(timedelta(milliseconds=1))
    for number in (1, 2, 3):
        response = await shown.response("")
        assert f"calls {number}.0".encode() in bytes(response.body)


async def test_after_a_text_the_next_one_waits_nine_times_as_long_as_the_generation_took(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise a client without a token could keep the event loop from renewing the lease of the controller."""
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(anyio, "sleep", sleep)
    _, shown = slow(timedelta(milliseconds=10))
    await shown.response("")
    await shown.response("")
    assert pauses == [0.0, pytest.approx(0.09)]
