"""A small kind of resource, for tests of the loop without nodes: widgets, and requests that enqueue them.

A widget has one layer, `state`, and a payload. The INSERT of a request enqueues its widget, as the INSERT of an intent
enqueues its node; a run answers the requests in its snapshot. `CREATE` makes the tables in a test's own database. The
database refuses the payload `poison`, which stands for any reason to refuse a commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, TypeAlias

import msgspec
from typing_extensions import override

from farrier.io import codec, statements
from farrier.io.connections.pool import Connection, Pool
from farrier.io.kinds.rows import Changes, ResourceRows
from farrier.model.kinds.measures import Sample
from farrier.model.loop.outcome import Decision, DoNothing, Outcome, Transition, Update
from farrier.model.loop.runs import AnsweredIntent, Finished, LayerState
from farrier.protocols import StateHandler

KIND = "widget"

CREATE = """
    CREATE SCHEMA farrier_toy;
    CREATE TABLE farrier_toy.widgets (
        id         bigint      PRIMARY KEY,
        version    bigint      NOT NULL DEFAULT 1,
        commit_id  uuid,
        state      text        NOT NULL DEFAULT 'raw',
        entered_at timestamptz NOT NULL DEFAULT farrier.now(),
        payload    text        NOT NULL DEFAULT '' CHECK (payload <> 'poison'),
        ended_at   timestamptz
    );
    INSERT INTO farrier.kinds (kind, relation) VALUES ('widget', 'farrier_toy.widgets');
    SELECT farrier.make_shards('widget');
    CREATE TABLE farrier_toy.requests (
        id       bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        widget   bigint  NOT NULL,
        urgent   boolean NOT NULL DEFAULT false,
        answers  integer NOT NULL DEFAULT 0
    );
    CREATE INDEX ON farrier_toy.requests (widget) WHERE answers = 0;
    CREATE FUNCTION farrier_toy.wake() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM farrier.enqueue('widget', NEW.widget);
        RETURN NULL;
    END $$;
    CREATE TRIGGER wake AFTER INSERT ON farrier_toy.requests FOR EACH ROW EXECUTE FUNCTION farrier_toy.wake();
    CREATE FUNCTION farrier_toy.write(changes jsonb) RETURNS TABLE (run bigint, due_in interval) LANGUAGE plpgsql AS $$
    DECLARE
        fit bigint[] := ARRAY(
            SELECT w.id FROM farrier_toy.widgets w
              JOIN jsonb_to_recordset(changes -> 'runs') c (run bigint, version bigint)
                ON c.run = w.id AND c.version = w.version
             ORDER BY w.id FOR NO KEY UPDATE OF w SKIP LOCKED);
    BEGIN
        IF cardinality(fit) < jsonb_array_length(changes -> 'runs') THEN
            RETURN QUERY SELECT * FROM farrier.unfit_runs('farrier_toy.widgets', changes -> 'runs', fit);
            changes := farrier.filter_runs(changes, fit);
        END IF;
        UPDATE farrier_toy.widgets w SET version = w.version + 1, commit_id = c.commit_id
          FROM jsonb_to_recordset(changes -> 'runs') c (run bigint, writes boolean, commit_id uuid)
         WHERE w.id = c.run AND c.writes;
        UPDATE farrier_toy.widgets w
           SET version = w.version + 1, commit_id = c.commit_id, state = c.state, payload = c.payload,
               entered_at = CASE WHEN w.state = c.state THEN w.entered_at ELSE farrier.now() END
          FROM jsonb_to_recordset(changes -> 'widgets') c (run bigint, state text, payload text, commit_id uuid)
         WHERE w.id = c.run;
        UPDATE farrier_toy.requests r SET answers = answers + 1
          FROM jsonb_to_recordset(changes -> 'answers') c (request bigint) WHERE r.id = c.request;
    END $$;
"""

_REGISTER = """
    WITH made AS (INSERT INTO farrier_toy.widgets (id) SELECT unnest($1::bigint[]) RETURNING id)
    INSERT INTO farrier.wakes (kind, resource) SELECT 'widget', id FROM made ORDER BY id
"""

_LOAD = """
    SELECT w.id, farrier.now() AS now,
           jsonb_build_object('id', w.id, 'version', w.version, 'state', w.state, 'entered_at', w.entered_at,
                              'payload', w.payload, 'requests',
                              (SELECT coalesce(jsonb_agg(r.id ORDER BY r.id), '[]')
                                 FROM farrier_toy.requests r WHERE r.widget = w.id AND r.answers = 0)) AS
                                 snapshot
      FROM farrier_toy.widgets w WHERE w.id = ANY ($1::bigint[])
"""

_INTERRUPTED = """
    SELECT DISTINCT widget AS id FROM farrier_toy.requests
     WHERE widget = ANY ($1::bigint[]) AND urgent AND answers = 0
"""


class State(StrEnum):
    RAW = "raw"
    MADE = "made"
    SOLD = "sold"


EDGES = frozenset({("raw", "made"), ("made", "raw"), ("made", "sold")})


class Widget(msgspec.Struct, frozen=True):
    """Snapshot of a widget and of its unanswered requests."""

    id: int
    version: int
    state: State
    entered_at: datetime
    payload: str
    requests: tuple[int, ...]

    @property
    def name(self) -> str:
        return f"widget-{self.id}"


class Shape(msgspec.Struct, frozen=True):
    """The columns of a widget that a run may write."""

    state: State
    payload: str = ""


class Answer(msgspec.Struct, frozen=True):
    """A write that counts an answer to a request."""

    request: int


class WidgetKind:
    """`protocols.Kind` of widgets."""

    name = KIND
    edges: Mapping[str, frozenset[tuple[str, str]]] = {"state": EDGES}

    def current_layers(self, resource: Widget) -> Mapping[str, LayerState]:
        return {"state": LayerState(resource.state.value, resource.entered_at)}

    def target_layers(self, to: Shape) -> Mapping[str, str]:
        return {"state": to.state.value}

    def unwritten(self, _resource: Widget, _to: Shape) -> Sequence[str]:
        return ()

    def has_ended(self, resource: Widget) -> bool:
        return resource.state is not State.MADE

    def label(self, resource: Widget) -> tuple[str, str]:
        return resource.state.value, ""

    def asked_alone(self, widget: Widget, intent: int, /) -> Widget:
        return msgspec.structs.replace(widget, requests=tuple(each for each in widget.requests if each == intent))

    def answers(self, _widget: Widget, writes: Sequence[object], /) -> Sequence[AnsweredIntent]:
        counted = [write.request for write in writes if isinstance(write, Answer)]
        return [AnsweredIntent(request, "count", "accepted", "", None) for request in counted]

    def samples(self, _widget: Widget, _to: Shape, /) -> Sequence[Sample]:
        return ()


class WidgetRows(ResourceRows[Any, Answer]):
    """`io.rows.Rows` of widgets."""

    def __init__(self) -> None:
        self.kind, self.load, self.interrupted = KIND, _LOAD, _INTERRUPTED
        self.write = statements.load("loop/write").replace("writer_of_kind", "farrier_toy.write")
        self.decode = codec.reader(Widget, KIND)

    @override
    def changes(self, runs: Sequence[Finished[Any, Answer]]) -> Changes:
        return {
            "widgets": [
                {"run": run.id, "state": run.to.state, "payload": run.to.payload, "commit_id": run.commit_id}
                for run in runs
                if run.to is not None
            ],
            "answers": [{"run": run.id, "request": write.request} for run in runs for write in run.writes],
        }


Decided: TypeAlias = Decision[Shape, Answer, object]
Change: TypeAlias = Transition[Shape, Answer] | Update[Shape, Answer]
Script: TypeAlias = Callable[[Widget, datetime], Decided]

MADE = Transition[Shape, Answer](to=Shape(State.MADE), reason="it was raw", cause="timer")
CUT = Update[Shape, Answer](to=Shape(State.RAW, "cut"), reason="was cut short", requeue_after=timedelta(0))


def answered(widget: Widget) -> tuple[Answer, ...]:
    """Answers to all requests of the snapshot."""
    return tuple(Answer(request) for request in widget.requests)


def content(widget: Widget, _now: datetime) -> Outcome[Shape, Answer]:
    """The default script: answer all requests, and do nothing else."""
    return DoNothing(source="toy:1", writes=answered(widget))


class Scripted(StateHandler[Widget, Shape, Answer, object]):
    """A handler that runs each widget's script, and records the order in which the widgets came."""

    def __init__(self, scripts: Mapping[int, Script] | None = None, default: Script = content) -> None:
        self.scripts = dict(scripts or {})
        self.default = default
        self.order: list[int] = []

    @override
    def handle(self, resource: Widget, now: datetime) -> Decided:
        self.order.append(resource.id)
        return self.scripts.get(resource.id, self.default)(resource, now)


class Careful(Scripted):
    """A handler that records the widgets that the loop has it recover, with the steps from which it recovers them."""

    def __init__(self) -> None:
        super().__init__()
        self.recovered: list[tuple[int, str]] = []

    @override
    def recover(self, resource: Widget, now: datetime, step: str) -> Decided:
        self.recovered.append((resource.id, step))
        return Update(to=Shape(resource.state, "recovered"), reason="its end was not seen", requeue_after=timedelta(0))


async def install(conn: Connection) -> None:
    """Create the tables of the kind."""
    await conn.execute(CREATE)


async def register(conn: Connection | Pool, ids: Iterable[int]) -> None:
    """Insert widgets and enqueue them."""
    await conn.execute(_REGISTER, list(ids))


async def ask(conn: Connection | Pool, widget: int, *, urgent: bool = False) -> int:
    """Insert a request for a widget."""
    request: int = await conn.fetchval(
        "INSERT INTO farrier_toy.requests (widget, urgent) VALUES ($1, $2) RETURNING id", widget, urgent
    )
    return request
