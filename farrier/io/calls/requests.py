"""`protocols.Requests` on PostgreSQL. The command line and the web submit intents with it.

These clients call the same SQL functions as any other service, with the same rights. All clients that wait for an
answer share one listening connection. If notifications do not arrive (PgBouncer), a poll finds the answer.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from datetime import timedelta
from typing import Any, Self

import anyio

from farrier.errors import DatabaseUnreachable, RefusedByModel
from farrier.io import codec, statements
from farrier.io.connections import pool, refusals
from farrier.io.connections.pool import Connection, Pool, Single
from farrier.io.queries import reading
from farrier.model.intents import selection
from farrier.model.intents.preview import Foreseen, PreviewVerdict
from farrier.model.intents.requests import IntentAnswer, IntentRequest, IntentStatus, Registered, Registration
from farrier.model.loop.restores import Lift, Lifted
from farrier.model.node import details

_ASK = statements.load("api/ask")
_ANSWER = statements.load("api/answer")
_REGISTER = statements.load("api/register")
_ISSUE_BOOTSTRAP = statements.load("api/issue_bootstrap")
_LIFT_BRAKE = statements.load("api/lift_brake")
_LIFT_HOLDS = statements.load("api/lift_holds")
_ENQUEUE = statements.load("wakes/enqueue")

_FORESEE = statements.load("questions/ask")
_FORESEEN = statements.load("questions/answers")
# The number of questions that one call of `farrier.foresee` accepts, and the pause between two looks for the answers.
_ASKED_AT_ONCE = 1000
_FORESEEN_EVERY_SECONDS = 0.02

_ANSWERED = ("farrier_intent_answered", "farrier_resource_intent_answered")
# The interval of the poll, which finds an answer if no notification arrives.
_LOOK_EVERY_SECONDS = 0.5

# Short, because a client waits meanwhile.
_CONNECT_PATIENCE = timedelta(seconds=5)


class PostgresRequests:
    """Implements `protocols.Requests`. `dsn` is the DSN of `connections`; the listening connection uses it.
    `requested_by` is the client of requests that name no client."""

    def __init__(
        self, connections: Pool, dsn: str, *, pgbouncer: bool = False, requested_by: str | None = None
    ) -> None:
        self._pool = connections
        self._requested_by = requested_by
        self._bell = _Bell(dsn, pgbouncer=pgbouncer)

    async def ask(self, request: IntentRequest) -> int:
        intent: int = await self._value(
            _ASK,
            request.kind,
            request.resource,
            request.action,
            codec.encode(request.params),
            request.key,
            request.requested_by or self._requested_by,
            request.api_version,
        )
        return intent

    async def foresee(
        self, kind: str, asked: Sequence[IntentRequest], patience: timedelta
    ) -> tuple[Foreseen | None, ...]:
        found: list[Foreseen | None] = []
        for first in range(0, len(asked), _ASKED_AT_ONCE):
            found += await self._foreseen(kind, asked[first : first + _ASKED_AT_ONCE], patience)
        return tuple(found)

    async def _foreseen(self, kind: str, asked: Sequence[IntentRequest], patience: timedelta) -> list[Foreseen | None]:
        intents = [{"resource": each.resource, "action": each.action, "params": each.params} for each in asked]
        call = await self._value(_FORESEE, kind, codec.encode(intents))
        if call is None:
            return [None] * len(asked)
        until = anyio.current_time() + patience.total_seconds()
        while True:
            records = await refusals.fetch(self._pool, _FORESEEN, call)
            told = [_foreseen(record["verdict"], record["reason"]) for record in records]
            if anyio.current_time() >= until or (len(told) == len(asked) and None not in told):
                return told if len(told) == len(asked) else [None] * len(asked)
            await anyio.sleep(_FORESEEN_EVERY_SECONDS)

    async def answer(self, kind: str, intent: int, patience: timedelta) -> IntentAnswer | None:
        answer = await self._look(kind, intent)
        if answer.status != IntentStatus.PENDING:
            return answer  # no need to listen for it
        with anyio.move_on_after(patience.total_seconds()):
            async with self._bell.heard() as bell:
                while True:
                    rung = bell.rung
                    answer = await self._look(kind, intent)
                    if answer.status != IntentStatus.PENDING:
                        return answer
                    with anyio.move_on_after(_LOOK_EVERY_SECONDS):
                        await rung.wait()
        return None

    async def register(self, registrations: Sequence[Registration]) -> tuple[Registered, ...]:
        # All clients register in the same order, so that two lists with the same nodes cannot deadlock.
        ordered = sorted(registrations, key=lambda each: each.name)
        async with refusals.borrowed(self._pool) as conn, conn.transaction():
            made = {each.name: await self._register(conn, each, named=len(ordered) > 1) for each in ordered}
        return tuple(made[each.name] for each in registrations)

    async def _register(self, conn: Connection, new: Registration, *, named: bool) -> Registered:
        """Register one node. With `named`, errors begin with the name of the node."""
        bmc, bootstrap = (new.bmc_address, new.bmc_credential), (new.bootstrap_token, new.bootstrap_ttl)
        of_node = new.api_version, codec.encode(details.given(new)), new.requested_by or self._requested_by
        try:
            with refusals.translated():
                id_: int = await conn.fetchval(_REGISTER, new.name, *bmc, *bootstrap, *of_node)
                return Registered(id=id_, name=new.name, bootstrap_token=new.bootstrap_token)
        except RefusedByModel as refusal:
            text = f"{new.name}: {refusal.text}" if named else refusal.text
            raise type(refusal)(text, hint=refusal.hint, sqlstate=refusal.sqlstate) from refusal

    async def issue_bootstrap(self, node: str, ttl: timedelta) -> str:
        token: str = await self._value(_ISSUE_BOOTSTRAP, node, ttl)
        return token

    async def lift_brake(self, site: str, *, reason: str, lasts: timedelta, requested_by: str | None = None) -> None:
        await self._value(_LIFT_BRAKE, site, reason, lasts, requested_by or self._requested_by)

    async def lift_holds(self, lift: Lift) -> tuple[Lifted, ...]:
        names = None if lift.names is None else list(lift.names)
        by = lift.requested_by or self._requested_by
        arguments = lift.kind, names, lift.site, lift.then, lift.reason, by
        async with refusals.borrowed(self._pool) as conn:
            return await reading.fetch(conn, Lifted, _LIFT_HOLDS, *arguments)

    async def enqueue(self, kind: str, resource: str) -> int:
        async with refusals.borrowed(self._pool) as conn:
            is_id = selection.is_id(resource)
            id_ = int(resource) if is_id else await reading.find_resource(conn, kind, resource)
            await conn.execute(_ENQUEUE, kind, [id_])
        return id_

    async def _look(self, kind: str, intent: int) -> IntentAnswer:
        async with refusals.borrowed(self._pool) as conn:
            record = await conn.fetchrow(_ANSWER, kind, intent)
        if record is None:
            raise RefusedByModel(f"intent {intent} does not exist", sqlstate="FR404")
        return IntentAnswer(**record)

    async def _value(self, sql: str, *arguments: Any) -> Any:
        async with refusals.borrowed(self._pool) as conn:
            return await conn.fetchval(sql, *arguments)


def _foreseen(verdict: str | None, reason: str | None) -> Foreseen | None:
    return None if verdict is None else Foreseen(PreviewVerdict(verdict), reason or "")


class _Bell:
    """Sets event `rung` for every notification of an answer. All clients that wait share one connection."""

    def __init__(self, dsn: str, *, pgbouncer: bool) -> None:
        self.rung = anyio.Event()
        self._dsn = dsn
        self._pgbouncer = pgbouncer
        self._connection: Single | None = None
        self._users = 0
        self._one_at_a_time = anyio.Lock()

    @asynccontextmanager
    async def heard(self) -> AsyncIterator[Self]:
        """Listen while the context is open. Raises DatabaseUnreachable. After the connection is lost, no more
        notifications arrive, so a client must also poll."""
        self._users += 1
        try:
            async with self._one_at_a_time:
                if self._connection is None or self._connection.is_closed():
                    self._connection = await self._listen()
            yield self
        finally:
            self._users -= 1
            if self._users == 0 and self._connection is not None:
                self._connection.terminate()
                self._connection = None

    async def _listen(self) -> Single:
        listener = await pool.reconnect(self._dsn, patience=_CONNECT_PATIENCE, pgbouncer=self._pgbouncer)
        with ExitStack() as unless_it_listens:
            unless_it_listens.callback(listener.terminate)
            try:
                for channel in _ANSWERED:
                    await listener.add_listener(channel, self._ring)
            except pool.CONNECTION_ERRORS as error:
                raise DatabaseUnreachable(pool.redacted(self._dsn), str(error) or type(error).__name__) from error
            unless_it_listens.pop_all()
        return listener

    def _ring(self, *_notification: object) -> None:
        self.rung.set()
        self.rung = anyio.Event()
