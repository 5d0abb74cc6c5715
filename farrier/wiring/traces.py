"""OpenTelemetry traces of runs that call services, and of the requests of these runs. If traces are off, these objects
are not created.

A trace begins with a step of a run, and the requests of the step are child spans. A run without a step has no trace,
because such a run takes microseconds, and there may be thousands of them a second. A span contains names and classes
from finite sets and the name of the resource, never the content of a request or of a response.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

import anyio
import msgspec
from typing_extensions import override

import farrier
from farrier.config import TracesConfig
from farrier.errors import ConfigError, FarrierError
from farrier.model.loop.outcome import Decision, Step, Transition
from farrier.model.loop.restores import Hold
from farrier.protocols import Kind, ServiceObserver, StateHandler

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Tracer

# If a collector does not respond, it must not delay the end of the process, and may delay an export only briefly.
_EXPORT_SECONDS = 5
_NANOSECONDS = 1_000_000_000

_MISSING = "traces.endpoint is set, but OpenTelemetry is not installed; run pip install 'farrier[otel]'"


class Traces:
    """Adds spans to handlers and to observers of requests."""

    def __init__(self, provider: TracerProvider) -> None:
        self._tracer = provider.get_tracer("farrier", farrier.__version__)

    def handler(
        self, kind: Kind[Any, Any], handler: StateHandler[Any, Any, Any, Any]
    ) -> StateHandler[Any, Any, Any, Any]:
        """Wrap the handler, so that each of its steps has a span."""
        return _TracedHandler(kind, handler, self._tracer)

    def observer(self, inner: ServiceObserver) -> ServiceObserver:
        """Return an observer that adds spans, and also reports requests to `inner`."""
        return _TracedRequests(inner, self._tracer)


@asynccontextmanager
async def tracing(config: TracesConfig) -> AsyncIterator[Traces | None]:
    """Return the traces, which are exported to the collector in the settings. Returns None if no collector is
    configured. Raises ConfigError."""
    if not config.endpoint:
        yield None
        return
    provider = _provider(config)
    try:
        yield Traces(provider)
    finally:
        with anyio.CancelScope(shield=True), anyio.move_on_after(_EXPORT_SECONDS):
            await anyio.to_thread.run_sync(provider.shutdown, abandon_on_cancel=True)


def _provider(config: TracesConfig) -> TracerProvider:
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
    except ImportError:
        raise ConfigError(_MISSING) from None
    resource = Resource.create({"service.name": "farrier", "service.version": farrier.__version__})
    provider = TracerProvider(resource=resource, sampler=ParentBased(TraceIdRatioBased(config.share)))
    exporter = OTLPSpanExporter(f"{config.endpoint.rstrip('/')}/v1/traces", timeout=_EXPORT_SECONDS)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider


class _TracedHandler(StateHandler[Any, Any, Any, Any]):
    """A handler that makes the same decisions as `inner`, and adds a span around each step."""

    def __init__(self, kind: Kind[Any, Any], inner: StateHandler[Any, Any, Any, Any], tracer: Tracer) -> None:
        self._kind = kind
        self._inner = inner
        self._tracer = tracer
        self.after = inner.after  # type: ignore[method-assign]
        self.confirmed = inner.confirmed  # type: ignore[method-assign]

    @override
    def handle(self, resource: Any, now: datetime) -> Decision[Any, Any, Any]:
        return self._traced(resource, self._inner.handle(resource, now))

    @override
    def recover(self, resource: Any, now: datetime, step: str) -> Decision[Any, Any, Any]:
        return self._traced(resource, self._inner.recover(resource, now, step))

    @override
    def observe(self, resource: Any, now: datetime, hold: Hold) -> Decision[Any, Any, Any]:
        return self._traced(resource, self._inner.observe(resource, now, hold))

    def _traced(self, resource: Any, decision: Decision[Any, Any, Any]) -> Decision[Any, Any, Any]:
        if not isinstance(decision, Step):
            return decision
        return msgspec.structs.replace(decision, act=self._act(resource, decision.name, decision.act))

    def _act(self, resource: Any, step: str, act: Callable[[Any], Awaitable[Any]]) -> Callable[[Any], Awaitable[Any]]:
        from opentelemetry.trace import StatusCode

        state, substate = self._kind.label(resource)
        about = {
            "farrier.kind": self._kind.name,
            "farrier.name": resource.name,
            "farrier.step": step,
            "farrier.state": state,
            "farrier.substate": substate,
        }

        async def traced(services: Any) -> Any:
            with self._tracer.start_as_current_span(
                f"{self._kind.name} {step}",
                attributes=about,
                record_exception=False,  # its text may be long, and the outcome contains it
                set_status_on_exception=False,
            ) as span:
                try:
                    outcome = await act(services)
                except FarrierError as error:
                    span.set_status(StatusCode.ERROR, error.label)
                    raise
                except BaseException as error:
                    span.set_status(StatusCode.ERROR, type(error).__name__)
                    raise
                span.set_attribute("farrier.outcome", type(outcome).__name__)
                if isinstance(outcome, Transition):
                    span.set_attribute("farrier.cause", outcome.cause)
                return outcome

        return traced


class _TracedRequests(ServiceObserver):
    """An observer that records each request, when it has ended, as a child span of its step."""

    def __init__(self, inner: ServiceObserver, tracer: Tracer) -> None:
        self._inner = inner
        self._tracer = tracer

    @override
    def requested(self, service: str, operation: str, result: str, seconds: float) -> None:
        from opentelemetry.trace import SpanKind, StatusCode

        self._inner.requested(service, operation, result, seconds)
        ended = time.time_ns()
        span = self._tracer.start_span(
            f"{service} {operation}",
            kind=SpanKind.CLIENT,
            start_time=ended - int(seconds * _NANOSECONDS),
            attributes={"farrier.service": service, "farrier.operation": operation, "farrier.result": result},
        )
        if result != "ok":
            span.set_status(StatusCode.ERROR, result)
        span.end(ended)
