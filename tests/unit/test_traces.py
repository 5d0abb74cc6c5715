"""Traces: a span for each step of a run, with a child span for each of its requests. Without the setting, no spans."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from typing_extensions import override

from farrier.config import TracesConfig
from farrier.errors import ConfigError, ServiceError
from farrier.handlers.node.kind import NODE_KIND
from farrier.model.loop.outcome import Decision, DoNothing, Step
from farrier.model.node.layers import Management, NodeStatus
from farrier.model.node.snapshot import Node
from farrier.protocols import ServiceObserver, StateHandler
from farrier.web.server.serving import serving
from farrier.wiring import traces as tracing
from farrier.wiring.traces import Traces

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NODE = Node(id=1, name="gpu-1", version=1, status=NodeStatus.ACTIVE, management=Management.UNMANAGED, workflow=None)
Act = Callable[[Any], Awaitable[Any]]


class Handler(StateHandler[Any, Any, Any, Any]):
    """A handler that decides on a step with `act`; with None, it rests."""

    def __init__(self, act: Act | None) -> None:
        self._act = act

    @override
    def handle(self, resource: Any, now: datetime) -> Decision[Any, Any, Any]:
        if self._act is None:
            return DoNothing(source="x.py:1")
        return Step(name="deploy", act=self._act, deadline=timedelta(minutes=1), reads_only=False)


class Requests(ServiceObserver):
    """Records the reported requests."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    @override
    def requested(self, service: str, operation: str, result: str, seconds: float) -> None:
        self.seen.append(f"{service} {operation} {result}")


@pytest.fixture
def exported() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def traces(exported: InMemorySpanExporter) -> Traces:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exported))
    return Traces(provider)


async def run(traces: Traces, act: Act | None) -> Any:
    """Decide and act, as the loop does."""
    decision = traces.handler(NODE_KIND, Handler(act)).handle(NODE, NOW)
    return await decision.act(None) if isinstance(decision, Step) else decision


def by_name(exported: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    return {span.name: span for span in exported.get_finished_spans()}


async def test_a_request_is_a_span_below_the_step_that_sent_it(traces: Traces, exported: InMemorySpanExporter) -> None:
    requests = Requests()
    observer = traces.observer(requests)

    async def act(_: Any) -> Any:
        observer.requested("maas", "deploy", "ok", 2.5)
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.to_thread.run_sync, observer.requested, "bmc", "system", "timeout", 0.5)
        return DoNothing(source="x.py:1")

    assert await run(traces, act) == DoNothing(source="x.py:1")
    spans = by_name(exported)
    step, deploy, read = (spans[name] for name in ("node deploy", "maas deploy", "bmc system"))
    assert step.attributes == {
        "farrier.kind": "node",
        "farrier.name": "gpu-1",
        "farrier.step": "deploy",
        "farrier.state": "active",
        "farrier.substate": "",
        "farrier.outcome": "DoNothing",
    }
    for request in (deploy, read):
        assert request.parent is not None and step.context is not None
        assert request.parent.span_id == step.context.span_id
    assert deploy.start_time is not None and deploy.end_time is not None
    assert deploy.end_time - deploy.start_time == 2_500_000_000
    assert (deploy.status.status_code, read.status.status_code) == (StatusCode.UNSET, StatusCode.ERROR)
    assert read.attributes == {"farrier.service": "bmc", "farrier.operation": "system", "farrier.result": "timeout"}
    assert requests.seen == ["maas deploy ok", "bmc system timeout"]


async def test_a_step_that_fails_or_is_cancelled_is_an_error_without_its_text(
    traces: Traces, exported: InMemorySpanExporter
) -> None:
    async def fail(_: Any) -> Any:
        raise ServiceError(service="maas", operation="deploy", detail="a text with details")

    with pytest.raises(ServiceError):
        await run(traces, fail)
    with anyio.move_on_after(0):
        await run(traces, lambda _: anyio.Event().wait())
    failed, cancelled = exported.get_finished_spans()
    assert (failed.status.status_code, failed.status.description) == (StatusCode.ERROR, "service")
    assert (cancelled.status.status_code, cancelled.status.description) == (StatusCode.ERROR, "CancelledError")
    assert not failed.events and "details" not in failed.to_json()


async def test_a_run_that_only_decides_has_no_span(traces: Traces, exported: InMemorySpanExporter) -> None:
    await run(traces, None)
    assert exported.get_finished_spans() == ()


async def test_spans_reach_the_collector_before_the_process_ends() -> None:
    received: list[str] = []

    async def collect(request: Request) -> Response:
        message = ExportTraceServiceRequest.FromString(await request.body())
        received.extend(
            span.name for each in message.resource_spans for scope in each.scope_spans for span in scope.spans
        )
        return Response()

    app = Starlette(routes=[Route("/v1/traces", collect, methods=["POST"])])
    async with serving(app, host="127.0.0.1", port=0) as url:
        async with tracing.tracing(TracesConfig(endpoint=f"{url}/")) as traces:
            assert traces is not None
            traces.observer(Requests()).requested("maas", "deploy", "ok", 1.0)
        assert received == ["maas deploy"]


async def test_without_an_endpoint_nothing_is_wrapped() -> None:
    async with tracing.tracing(TracesConfig()) as traces:
        assert traces is None


def test_the_daemon_does_not_import_opentelemetry() -> None:
    code = "import sys, farrier.cli, farrier.daemon; sys.exit(any(m.startswith('opentelemetry') for m in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


async def test_an_endpoint_without_the_extra_is_refused_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(ConfigError, match=r"pip install 'farrier\[otel\]'"):
        async with tracing.tracing(TracesConfig(endpoint="http://127.0.0.1:4318")):
            pass
