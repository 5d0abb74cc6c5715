"""Traces which functions run for an idle node, from the INSERT of an intent to its answer, and in a step in MAAS.

`python -m tools.trace_walk` runs the daemon of `farrier demo` over one node, with its BMC, its agent and a MAAS region,
and prints the functions that ran. `--write` stores them in `tools/walks.json`, from which `tools.generate_docs` makes
the walks in docs/walks.md without a database. `tests/e2e/test_walks.py` traces again with `--check`.

A walk begins with certain functions. A walk has each Python function of the package that these functions call, directly
or indirectly, once, in the order of the first calls. A walk omits lambdas, comprehensions and generator expressions,
which are lines of their function; `__methods__`, mainly constructors; and `log`, `metrics`, `cli` and `sim`, which
record events or simulate external services. A walk does not include functions of other tasks.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, TypeAlias

import anyio
import asyncpg
import msgspec

from farrier import log
from farrier.cli.service.simulation import DemoOptions, Scene, running
from farrier.controller.agenda import Phase
from farrier.model.node.layers import NodeStatus

FARRIER = Path(__file__).parents[1] / "farrier"
WALKS = Path(__file__).parent / "walks.json"

_NOT_COUNTED = ("cli", "log.py", "metrics", "sim")
# A region's work takes half an hour of its simulated time.
_SPEED = 600.0
_PATIENCE_SECONDS = 120.0
# The pause after a node has become active, for the last runs that its onboarding enqueues.
_QUIET_SECONDS = 3.0
_LOOK_EVERY = 0.02
# If a function runs only by chance while an intent is answered, it does not run in most of the repetitions.
_TIMES = 5
# The number of intents. Polls and renewals run less often in the same time, or about as often as without intents.
_MANY_TIMES = 40
# A session of the server reports its calls of functions when it has been idle for ten seconds.
_REPORTED_AFTER = 11.0
_MAAS_STEP = "configure_storage"

_PAUSE = "pause", '{"reason": "a walk"}'
_UNPAUSE = "unpause", "{}"
_ASK = """
    INSERT INTO farrier.intents (node, action, params, requested_by, api_version)
    SELECT name, $1, $2::jsonb, 'a walk', 2 FROM farrier.nodes RETURNING id
"""
_ANSWERED = "SELECT status <> 'pending' FROM farrier.intents WHERE id = $1"
_CALLED = "SELECT funcname, calls FROM pg_stat_user_functions WHERE schemaname = 'farrier'"

# The files whose docstrings describe the methods of several classes.
_PROTOCOLS = frozenset({"protocols/database.py", "protocols/loop.py", "protocols/outside.py", "io/kinds/state.py"})
# The beginning of a docstring, up to the first full stop, colon or semicolon after its fourth word.
_CLAUSE = re.compile(r"(?:\S+ ){4}.*?(?:[.:;](?= |$)|$)|.*")

# A formatted call, to be written on one line.
_A_CALL = re.compile(r'\[\s+(\d+),\s+("[^"]*"),\s+("[^"]*")\s+\]')

_Begins: TypeAlias = Callable[[FrameType], bool]


class Call(msgspec.Struct, frozen=True, array_like=True):
    """A function that ran: its depth below the walk's first function, its file in the package, and its qualified
    name."""

    depth: int
    file: str
    name: str


class Walk(msgspec.Struct, frozen=True):
    """The functions that ran: Python functions, and the SQL functions that run only in this case."""

    python: tuple[Call, ...]
    sql: tuple[str, ...] = ()


class Way(msgspec.Struct, frozen=True, kw_only=True):
    """A walk to be traced. The tracer records the functions that the functions in `begins` call, directly or
    indirectly. The tracer stops before the first call of `ends`; without `ends`, it records until `tracing` ends. A
    walk has at most `limit` functions."""

    title: str
    begins: Mapping[str, _Begins]
    ends: str = ""
    limit: int


def _any(_frame: FrameType) -> bool:
    return True


def _of_nodes(frame: FrameType) -> bool:
    return bool(frame.f_locals["self"].kind == "node")


def _asks_maas(frame: FrameType) -> bool:
    return bool(frame.f_locals["acting"].step.name == _MAAS_STEP)


WAYS: Mapping[str, Way] = {
    "idle": Way(
        title="A node that has nothing to do",
        begins={"Loop._sweep": _of_nodes},
        limit=24,
    ),
    "intent": Way(
        title="An intent, from its INSERT to its answer",
        begins={
            "Listener._hear": _any,
            "Loop._load": _of_nodes,
        },
        ends="Publisher.publish",
        limit=80,
    ),
    "maas": Way(
        title="A step that reads a machine in MAAS and changes it",
        begins={"Steps._run": _asks_maas},
        limit=72,
    ),
}


class Tracer:
    """Records the functions of a walk during `tracing`. `owners` are the objects whose methods begin the walk."""

    def __init__(self, way: Way) -> None:
        self._way = way
        self._frames: dict[str, FrameType] = {}
        self._known: set[CodeType] = set()
        self._files: dict[CodeType, str | None] = {}
        self._has_ended = False
        self.calls: list[Call] = []
        self.owners: dict[str, Any] = {}

    @contextmanager
    def tracing(self) -> Iterator[None]:
        """Record the functions that begin in this block."""
        sys.setprofile(self._look)
        try:
            yield
        finally:
            sys.setprofile(None)

    async def ended(self) -> bool:
        """Return whether the function `ends`, before which the way ends, was called."""
        return self._has_ended

    def _look(self, frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        if event != "call" or code in self._known or self._has_ended:
            return
        file = self._file(code)
        depth = None if file is None else self._depth(frame)
        if file is None or depth is None:
            return
        if code.co_qualname == self._way.ends:
            self._has_ended = True
            return
        self._known.add(code)
        self.calls.append(Call(depth, file, code.co_qualname.replace(".<locals>", "")))

    def _depth(self, frame: FrameType) -> int | None:
        """Return the number of counted functions between the frame and the function with which the walk begins. None if
        no function around the frame begins the walk."""
        depth = 0
        around: FrameType | None = frame
        while around is not None:
            name = around.f_code.co_qualname
            if name in self._way.begins and self._begins(name, around):
                return depth
            depth += self._file(around.f_code) is not None
            around = around.f_back
        return None

    def _begins(self, name: str, frame: FrameType) -> bool:
        """Return whether the walk begins at this frame. If several equal tasks run, only the first is followed."""
        if self._file(frame.f_code) is None or not self._way.begins[name](frame):
            return False
        self.owners[name] = frame.f_locals["self"]
        return name != "Steps._run" or self._frames.setdefault(name, frame) is frame

    def _file(self, code: CodeType) -> str | None:
        """Return the file of a function that counts; None for other functions."""
        if code not in self._files:
            path = Path(code.co_filename)
            inside = path.is_relative_to(FARRIER) and path.relative_to(FARRIER).parts[0] not in _NOT_COUNTED
            counts = inside and not code.co_name.startswith(("<", "__"))
            self._files[code] = path.relative_to(FARRIER).as_posix() if counts else None
        return self._files[code]


async def traced(*, with_sql: bool = False) -> dict[str, Walk]:
    """Return the walks by their names."""
    maas = Tracer(WAYS["maas"])
    with tempfile.TemporaryDirectory(prefix="farrier-walk-") as directory:
        async with _one_node(Path(directory)) as scene:
            with maas.tracing():
                await _until_active(scene)
            await anyio.sleep(_QUIET_SECONDS)
            idle = await _idle()
            intent = await _asked(scene.serving.dsn, with_sql=with_sql)
    return {"idle": idle, "intent": intent, "maas": Walk(tuple(maas.calls))}


@asynccontextmanager
async def _one_node(directory: Path) -> AsyncIterator[Scene]:
    options = DemoOptions(
        directory=directory,
        nodes=1,
        until_active=True,
        timeout=timedelta(seconds=_PATIENCE_SECONDS),
        faults=False,
        http_port=0,
        speed=_SPEED,
    )
    async with running(options) as scene, anyio.create_task_group() as arriving:
        arriving.start_soon(scene.fleet.arrive, timedelta(0))
        yield scene
        arriving.cancel_scope.cancel()


async def _until_active(scene: Scene) -> None:
    async def is_active() -> bool:
        return [node.status for node in await scene.fleet.glance()] == [NodeStatus.ACTIVE]

    await _until(is_active)


async def _until(done: Callable[[], Awaitable[bool]]) -> None:
    with anyio.fail_after(_PATIENCE_SECONDS):
        while not await done():  # noqa: ASYNC110 - the database or another task changes the result
            await anyio.sleep(_LOOK_EVERY)


async def _idle() -> Walk:
    """Trace the node's next run, which is made due now instead of half a minute later."""
    search = Tracer(WAYS["idle"])
    with search.tracing():
        await anyio.sleep(5 * _LOOK_EVERY)
    loop = search.owners["Loop._sweep"]
    with anyio.fail_after(_PATIENCE_SECONDS):
        while True:
            (entry,) = (entry for shard in loop.agenda._shards.values() for entry in shard.values())
            tracer = Tracer(WAYS["idle"])
            if entry.phase is Phase.IDLE:
                with tracer.tracing():
                    loop.agenda.wheel.put(entry, 0.0)
                    await anyio.sleep(10 * _LOOK_EVERY)
            # The node had nothing to do if its handler ran and the loop did not enqueue it for a load.
            names = {call.name for call in tracer.calls}
            if "NodeHandler.handle" in names and not names & {"Agenda.reload", "Agenda.requeue"}:
                return Walk(tuple(tracer.calls))
            await anyio.sleep(_QUIET_SECONDS / 3)


async def _asked(dsn: str, *, with_sql: bool) -> Walk:
    """Trace a pause several times, and end it each time."""
    conn = await asyncpg.connect(dsn)
    try:
        walks = []
        for _ in range(_TIMES):
            tracer = Tracer(WAYS["intent"])
            with tracer.tracing():
                await _answer(conn, *_PAUSE)
                await _until(tracer.ended)  # the client may see the answer before the daemon does
            walks.append(tuple(tracer.calls))
            await _answer(conn, *_UNPAUSE)
            await anyio.sleep(0.5)
        times = Counter((call.file, call.name) for walk in walks for call in walk)
        usual = [tuple(call for call in walk if times[call.file, call.name] > _TIMES / 2) for walk in walks]
        return Walk(max(usual, key=len), await _sql(conn) if with_sql else ())
    finally:
        conn.terminate()


async def _answer(conn: asyncpg.Connection[asyncpg.Record], action: str, params: str) -> None:
    asked = await conn.fetchval(_ASK, action, params)
    await _until(partial(conn.fetchval, _ANSWERED, asked))


async def _sql(conn: asyncpg.Connection[asyncpg.Record]) -> tuple[str, ...]:
    """Return the SQL functions that run at least once more for each intent, compared with the same time without
    intents."""
    await conn.execute("ALTER SYSTEM SET track_functions = 'all'")
    await conn.execute("SELECT pg_reload_conf()")
    await anyio.sleep(1)
    calls: list[dict[str, int]] = []
    for asked in (0, _MANY_TIMES):
        await conn.execute("SELECT pg_stat_reset()")
        for number in range(asked):
            await _answer(conn, *(_PAUSE if number % 2 == 0 else _UNPAUSE))
        await anyio.sleep(_REPORTED_AFTER)
        calls.append({record["funcname"]: record["calls"] for record in await conn.fetch(_CALLED)})
    otherwise, then = calls
    return tuple(sorted(name for name in then if then[name] - otherwise.get(name, 0) >= _MANY_TIMES))


def differences(walks: Mapping[str, Walk]) -> Iterator[str]:
    """Yield a line for each function that ran but is not in the stored walks, for the reverse, and for each walk that
    is too long."""
    for name, walk in walks.items():
        ran, named = ({f"{call.name} in {call.file}" for call in each.python} for each in (walk, kept()[name]))
        yield from (f"{name}: {function} ran, and is not in the walk\n" for function in sorted(ran - named))
        yield from (f"{name}: {function} is in the walk, and did not run\n" for function in sorted(named - ran))
        if len(walk.python) > WAYS[name].limit:
            yield f"{name}: {len(walk.python)} functions ran, and no more than {WAYS[name].limit} are to\n"


def kept() -> dict[str, Walk]:
    """Return the walks that were stored last."""
    return msgspec.json.decode(WALKS.read_bytes(), type=dict[str, Walk])


def markdown() -> str:
    """Return the walks as Markdown."""
    return "\n".join(_section(WAYS[name], walk) for name, walk in kept().items())


def _section(way: Way, walk: Walk) -> str:
    said = _docstrings()
    lines = [f"## {way.title}", "", f"{len(walk.python)} functions.", ""]
    lines += ["| function | file | what it does |", "| --- | --- | --- |"]
    for call in walk.python:
        lines.append(f"| {'· ' * call.depth}`{call.name}` | `{call.file}` | {_words(said, call)} |")
    if walk.sql:
        names = ", ".join(f"`{name}`" for name in walk.sql)
        lines += ["", f"SQL functions that the walk calls, except those that run at any time: {names}."]
    return "\n".join((*lines, ""))


def _words(said: Mapping[tuple[str, str], str], call: Call) -> str:
    """Return the first words of the function's docstring or, if it has none, of the docstring of the protocol's method
    that the function implements."""
    text = said.get((call.file, call.name), "")
    if not text and call.name.count(".") == 1:
        method = call.name[call.name.index(".") :]
        text = next((doc for (file, name), doc in said.items() if file in _PROTOCOLS and name.endswith(method)), "")
    words = _CLAUSE.match(" ".join(text.split()))
    return words[0].rstrip(".:;").replace("|", r"\|") if words is not None else ""


def _docstrings() -> dict[tuple[str, str], str]:
    """Return the docstring of each function of the package, by file and qualified name."""
    said: dict[tuple[str, str], str] = {}
    for path in FARRIER.rglob("*.py"):
        file = path.relative_to(FARRIER).as_posix()
        for name, doc in _in(ast.parse(path.read_text(encoding="utf-8")), ()):
            said[file, name] = doc
    return said


def _in(parent: ast.AST, around: Sequence[str]) -> Iterator[tuple[str, str]]:
    for node in ast.iter_child_nodes(parent):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names = (*around, node.name)
            yield ".".join(names), ast.get_docstring(node) or ""
            yield from _in(node, names)
        else:
            yield from _in(node, around)


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m tools.trace_walk", description="Trace what runs for one node.")
    parser.add_argument("--write", action="store_true", help="store the walks for the documentation")
    parser.add_argument("--check", action="store_true", help="print only the differences from the documentation")
    options = parser.parse_args()
    log.configure(log.Level.ERROR, log.Format.JSON, stream=sys.stderr)
    walks = anyio.run(lambda: traced(with_sql=not options.check), backend_options={"use_uvloop": True})
    if options.check:
        found = "".join(differences(walks))
        sys.stdout.write(found)
        return 1 if found else 0
    for name, walk in walks.items():
        sys.stdout.write(f"{WAYS[name].title}: {len(walk.python)} functions\n")
        sys.stdout.write("".join(f"{'  ' * (call.depth + 1)}{call.name}  {call.file}\n" for call in walk.python))
        sys.stdout.write(f"  in SQL: {', '.join(walk.sql)}\n\n" if walk.sql else "\n")
    if options.write:
        written = msgspec.json.format(msgspec.json.encode(walks), indent=1).decode()
        WALKS.write_text(_A_CALL.sub(r"[\1, \2, \3]", written) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
