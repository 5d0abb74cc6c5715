"""`protocols.AgentCalls` on PostgreSQL: the functions that a server for agents may call.

The server's login has the role `farrier_agent`, and can call nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

import msgspec

from farrier.errors import RefusedByModel
from farrier.io import codec, statements
from farrier.io.connections import refusals
from farrier.io.connections.pool import Pool
from farrier.model.machine.agent import Beat, BeatAnswer, BeatVerdict, Enrolling, Enrolment, LeasedTask, TaskEnd

_TAKE_BEATS = statements.load("agents/take_beats")
_ENROLL = statements.load("agents/enroll_agents")
_PUT_FACTS = statements.load("agents/put_facts")
_CLAIM = statements.load("agents/claim_by_key")
_RENEW = statements.load("agents/renew_by_key")
_FINISH = statements.load("agents/finish_by_key")
_NO_RIGHT = "grant the role farrier_agent to the login of this server"


class _Placed(msgspec.Struct, frozen=True):
    """A heartbeat with its place in the batch, in the form of `take_beats`."""

    place: int
    key: str
    boot: UUID
    version: str | None
    health: Mapping[str, Any]
    facts: str | None
    clock: float | None


class PostgresAgentCalls:
    """Implements `protocols.AgentCalls`."""

    def __init__(self, connections: Pool) -> None:
        self._fetch = partial(refusals.fetch, connections, no_right=_NO_RIGHT)

    async def enroll(
        self, batch: Sequence[Enrolment], *, patient: bool = False
    ) -> Sequence[Enrolling | RefusedByModel]:
        given = [{"place": place, **msgspec.structs.asdict(each)} for place, each in enumerate(batch)]
        records = await self._fetch(_ENROLL, codec.encode(given), patient)
        answers = {
            record["place"]: Enrolling(record["node_name"], record["refused"])
            if record["fault"] is None
            else refusals.of_text(record["fault"], record["reason"], record["hint"])
            for record in records
        }
        return [answers[place] for place in range(len(batch))]

    async def beat(self, batch: Sequence[Beat], *, patient: bool = False) -> Sequence[BeatAnswer]:
        placed = [
            _Placed(place, beat.key, beat.boot, beat.version, beat.health, beat.facts, beat.clock)
            for place, beat in enumerate(batch)
        ]
        records = await self._fetch(_TAKE_BEATS, codec.encode(placed), patient)
        answers = {
            place: BeatAnswer(BeatVerdict(verdict), reason, wait, facts, claim)
            for place, verdict, reason, wait, facts, claim in records
        }
        return [answers[place] for place in range(len(batch))]

    async def put_facts(self, key: str, digest: str, facts: Mapping[str, Any]) -> str | None:
        (record,) = await self._fetch(_PUT_FACTS, bytes.fromhex(key), digest, codec.encode(facts))
        refused: str | None = record[0]
        return refused

    async def claim(self, key: str, types: Sequence[str], claim_key: UUID, lease: timedelta) -> LeasedTask | None:
        records = await self._fetch(_CLAIM, bytes.fromhex(key), types, claim_key, lease)
        for record in records:
            return LeasedTask(
                id=record["task"],
                type=record["type"],
                params=msgspec.json.decode(record["params"]),
                attempt=record["attempt"],
                lease_token=record["lease_token"],
                lease_until=record["lease_until"],
            )
        return None

    async def renew(self, key: str, task: int, lease_token: UUID, lease: timedelta) -> datetime:
        (record,) = await self._fetch(_RENEW, bytes.fromhex(key), task, lease_token, lease)
        until: datetime = record[0]
        return until

    async def finish(self, key: str, task: int, end: TaskEnd) -> None:
        evidence = None if end.evidence is None else codec.encode(end.evidence)
        result = None if end.result is None else codec.encode(end.result)
        await self._fetch(_FINISH, bytes.fromhex(key), task, end.lease_token, end.succeeded, result, evidence)
