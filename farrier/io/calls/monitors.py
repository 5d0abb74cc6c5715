"""`protocols.MonitorCalls` on PostgreSQL: the functions that a server of the HTTP API calls for monitors."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from farrier.io import codec, statements
from farrier.io.connections import refusals
from farrier.io.connections.pool import Pool
from farrier.model.monitors.alertmanager import Labels
from farrier.model.monitors.monitor import Report, ReportAnswer, Verdict

_LABELS = statements.load("monitors/labels")
_REPORT = statements.load("monitors/report")
_REFUSE_TRUNCATED = statements.load("monitors/refuse_truncated")


class PostgresMonitorCalls:
    """Implements `protocols.MonitorCalls`."""

    def __init__(self, connections: Pool) -> None:
        self._pool = connections

    async def labels(self, monitor: str) -> Labels:
        (record,) = await refusals.fetch(self._pool, _LABELS, monitor)
        return msgspec.json.decode(record[0], type=Labels)

    async def report(self, monitor: str, reports: Sequence[Report]) -> tuple[ReportAnswer, ...]:
        records = await refusals.fetch(self._pool, _REPORT, monitor, codec.encode(reports))
        return tuple(ReportAnswer(Verdict(verdict), reason) for verdict, reason in records)

    async def refuse_truncated(self, monitor: str, group: str, missing: int) -> None:
        await refusals.fetch(self._pool, _REFUSE_TRUNCATED, monitor, group, missing)
