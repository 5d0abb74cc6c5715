"""Plants small faults in the code that makes decisions, and counts how many of them the tests that reach them find.

`python -m tools.mutants map DIRECTORY` draws faults by a seed, copies the checkout, plants a probe before each
statement with a fault, and runs the tests. DIRECTORY then contains the faults, the tests that reached each fault, and
how long each test took. `python -m tools.mutants run DIRECTORY` plants one fault after another and runs the tests that
reached it, the quickest first: first the tests of `make test` in this checkout and then, if none of them fails, the
others. The command prints how many faults each suite found.

A fault is another comparison, a negated condition, `and` for `or`, a number that is one off, a missing return value, or
a missing statement. Lints do not count as tests. This module is also the pytest plugin of these runs.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from functools import partial
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from queue import SimpleQueue
from typing import NoReturn

import msgspec
import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ("farrier/model", "farrier/controller", "farrier/handlers/node")

# These tests run first: quick tests find most faults, and pytest collects few files quickly.
FIRST = 40
# A fault may make a loop endless. pytest-timeout then ends the test; if it cannot, this limit ends the process.
PATIENCE_SECONDS = 300.0
WORKERS = 2
# `main` imports these modules once; otherwise each forked run would import them again.
LIBRARIES = (
    "aiohttp",
    "asyncpg",
    "httpx",
    "hypothesis.stateful",
    "jinja2",
    "prometheus_client",
    "structlog",
    "typer",
    "uvloop",
)

_ONLY, _TIMES = "FARRIER_MUTANTS_ONLY", "FARRIER_MUTANTS_TIMES"
_PROBE = "__import__('farrier.probes', fromlist=['hit']).hit({number})"
# A probe also counts hits in the programs that a test starts, because they inherit the environment, in which pytest
# names the test.
_PROBES = """
import os
seen = set()
def hit(number):
    test = os.environ.get("PYTEST_CURRENT_TEST")
    if test is not None and (number, test) not in seen:
        seen.add((number, test))
        with open(f"{directory}/{{os.getpid()}}", "a") as file:
            file.write(f"{{number}} {{test}}\\n")
"""

_OTHER: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_NOT_WALKED = {"annotation", "returns", "decorator_list", "args", "type_params"}


class Mutant(msgspec.Struct, frozen=True):
    """A drawn fault, and its number among the possible faults of its file."""

    file: str
    line: int
    what: str
    number: int


class Fault(msgspec.Struct, frozen=True):
    """A possible change in a syntax tree, and its statement."""

    statement: ast.stmt
    line: int
    what: str
    plant: Callable[[], None]


# --- faults


def faults(tree: ast.Module) -> list[Fault]:
    """Return each fault that the functions of a module can have, always in the same order."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    inner = {id(below) for one in functions for below in ast.walk(one) if below is not one and below in functions}
    found = []
    for function in functions:
        if id(function) in inner:
            continue
        for statement in ast.walk(function):
            if isinstance(statement, ast.stmt) and statement is not function:
                found += [
                    Fault(statement, getattr(node, "lineno", statement.lineno), what, plant)
                    for node in _own(statement)
                    for what, plant in _changes(node)
                ]
    return found


def _own(statement: ast.stmt) -> Iterator[ast.AST]:
    """Yield a statement and its expressions, but not the expressions of statements inside it."""
    yield statement
    for name, value in ast.iter_fields(statement):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.match_case) and child.guard is not None:
                yield from ast.walk(child.guard)
            elif isinstance(child, ast.expr | ast.withitem) and name not in _NOT_WALKED:
                yield from ast.walk(child)


def _changes(node: ast.AST) -> Iterator[tuple[str, Callable[[], None]]]:
    match node:
        case ast.Compare(ops=[op]):
            yield "comparison", partial(setattr, node, "ops", [_OTHER[type(op)]()])
        case ast.BoolOp(op=op):
            yield "and/or", partial(setattr, node, "op", ast.Or() if isinstance(op, ast.And) else ast.And())
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            yield "negation", partial(setattr, node, "test", ast.UnaryOp(ast.Not(), test))
        case ast.Constant(value=bool(value)):
            yield "negation", partial(setattr, node, "value", not value)
        case ast.Constant(value=int(value) | float(value)):
            yield "plus one", partial(setattr, node, "value", value + 1)
            yield "minus one", partial(setattr, node, "value", value - 1)
        case ast.Return(value=ast.expr() as value) if not (isinstance(value, ast.Constant) and value.value is None):
            yield "returns None", partial(setattr, node, "value", ast.Constant(None))
        case ast.Expr(value=ast.Call() | ast.Await()) | ast.AugAssign() | ast.Raise() | ast.Delete():
            yield "statement removed", partial(setattr, node, "__class__", ast.Pass)
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield "statement removed", partial(setattr, node, "__class__", ast.Pass)
        case _:
            pass


def drawn(root: Path, *, seed: int, count: int) -> list[Mutant]:
    """Return `count` faults of the packages in `ROOMS`, drawn with the seed."""
    every = [
        Mutant(path.relative_to(root).as_posix(), fault.line, fault.what, number)
        for room in ROOMS
        for path in sorted((root / room).rglob("*.py"))
        for number, fault in enumerate(faults(ast.parse(path.read_text(encoding="utf-8"))))
        if "assert_never" not in ast.unparse(fault.statement)
    ]
    return random.Random(seed).sample(every, min(count, len(every)))


def planted(text: str, mutant: Mutant) -> str:
    """Return a file's text with the fault in it."""
    tree = ast.parse(text)
    faults(tree)[mutant.number].plant()
    return ast.unparse(tree)


def probed(text: str, numbers: dict[int, int]) -> str:
    """Return a file's text with a probe before each statement that has a fault. `numbers` maps a fault's number in the
    file to its number in the draw."""
    tree = ast.parse(text)
    every = faults(tree)
    probes: dict[int, list[ast.stmt]] = defaultdict(list)
    for in_file, in_draw in numbers.items():
        probes[id(every[in_file].statement)] += ast.parse(_PROBE.format(number=in_draw)).body
    for node in list(ast.walk(tree)):
        for name, value in ast.iter_fields(node):
            if isinstance(value, list) and any(id(each) in probes for each in value):
                setattr(node, name, [every for each in value for every in (*probes.get(id(each), ()), each)])
    return ast.unparse(tree)


# --- what reaches them


def make_map(directory: Path, arguments: Sequence[str], *, seed: int, count: int) -> None:
    """Draw faults, and run the tests to record which tests reach each fault."""
    tree, hits = directory / "probed", directory / "hits"
    hits.mkdir(parents=True)
    for copy in (directory / "tree", tree):
        _copy_to(copy)
    mutants = drawn(directory / "tree", seed=seed, count=count)
    (directory / "mutants.json").write_bytes(msgspec.json.encode(mutants))
    of_files: dict[str, dict[int, int]] = defaultdict(dict)
    for number, mutant in enumerate(mutants):
        of_files[mutant.file][mutant.number] = number
    for file, numbers in of_files.items():
        (tree / file).write_text(probed((tree / file).read_text(encoding="utf-8"), numbers), encoding="utf-8")
    (tree / "farrier" / "probes.py").write_text(_PROBES.format(directory=hits.resolve()), encoding="utf-8")
    _pytest(tree, arguments, {_TIMES: str(directory.resolve() / "times")})


def reached(directory: Path) -> tuple[dict[int, set[str]], dict[str, float]]:
    """Return the tests that reach each fault, and the seconds of every test. Tests that fail even without a fault are
    omitted."""
    seconds: dict[str, float] = defaultdict(float)
    failed = set()
    for line in (directory / "times").read_text(encoding="utf-8").splitlines():
        outcome, lasted, test = line.split(" ", 2)
        seconds[test] += float(lasted)
        if outcome == "failed":
            failed.add(test)
    tests: dict[int, set[str]] = defaultdict(set)
    for file in (directory / "hits").iterdir():
        for line in file.read_text(encoding="utf-8").splitlines():
            number, _, test = line.rpartition(" (")[0].partition(" ")
            tests[int(number)].add(_plain(test))
    return {number: each & seconds.keys() - failed for number, each in tests.items()}, seconds


# --- results


class Found(msgspec.Struct, frozen=True):
    """The suite that found a fault: `small`, `large`, `none` if no test that reaches the fault finds it, or
    `unreached`."""

    mutant: Mutant
    by: str
    seconds: float
    last: str = ""


def run(directory: Path, *, small: set[str]) -> Iterator[Found]:
    """Try each fault that was not tried before. Results are stored immediately."""
    mutants = msgspec.json.decode((directory / "mutants.json").read_bytes(), type=list[Mutant])
    tests, seconds = reached(directory)
    results = directory / "results.jsonl"
    known = (
        [msgspec.json.decode(line, type=Found) for line in results.read_bytes().splitlines()]
        if results.exists()
        else []
    )
    tried = {each.mutant for each in known}
    yield from known
    trees: SimpleQueue[Path] = SimpleQueue()
    for number in range(WORKERS):
        copy = directory / f"tree{number}"
        shutil.copytree(directory / "tree", copy, dirs_exist_ok=True)
        trees.put(copy)

    quickest = sorted(small & seconds.keys(), key=seconds.__getitem__)[:FIRST]
    if (failed := _first_failure(directory / "tree0", quickest)) is not None:
        raise SystemExit(f"without a fault fails {failed}: see {directory}/tree0.log")

    def one(number: int) -> Found:
        tree = trees.get()
        try:
            order = sorted(tests.get(number, ()), key=seconds.__getitem__)
            return _tried(tree, mutants[number], [t for t in order if t in small], [t for t in order if t not in small])
        finally:
            trees.put(tree)

    with ThreadPoolExecutor(WORKERS) as pool, results.open("ab") as file:
        todo = [pool.submit(one, n) for n, mutant in enumerate(mutants) if mutant not in tried]
        for found in map(Future.result, as_completed(todo)):
            file.write(msgspec.json.encode(found) + b"\n")
            file.flush()
            yield found


def _tried(tree: Path, mutant: Mutant, small: list[str], large: list[str]) -> Found:
    path, begun = tree / mutant.file, time.monotonic()
    sound = path.read_text(encoding="utf-8")
    path.write_text(planted(sound, mutant), encoding="utf-8")
    os.utime(path, (when := time.time_ns() // 1_000_000 % 2**31, when))  # a time that no bytecode of another fault has
    try:
        for by, tests in (("small", small), ("large", large)):
            for some in (tests[:FIRST], tests[FIRST:]):
                last = _first_failure(tree, some) if some else None
                if last is not None:
                    return Found(mutant, by, time.monotonic() - begun, last)
    finally:
        path.write_text(sound, encoding="utf-8")
        os.utime(path, (0, 0))
    return Found(mutant, "none" if small or large else "unreached", time.monotonic() - begun)


def _first_failure(tree: Path, tests: list[str]) -> str | None:
    """Return the test that failed, if any. If the fault prevents any test from beginning or ending, return
    "nothing"."""
    only, times = tree.with_suffix(".only"), tree.with_suffix(".times")
    only.write_text("\n".join(tests), encoding="utf-8")
    times.write_text("", encoding="utf-8")
    files = sorted({test.partition("::")[0] for test in tests})
    if _pytest(tree, ["-x", *files], {_ONLY: str(only), _TIMES: str(times)}, timeout=PATIENCE_SECONDS) == 0:
        return None
    failed = [line.split(" ", 2)[2] for line in times.read_text(encoding="utf-8").splitlines() if line[:6] == "failed"]
    return failed[-1] if failed else "nothing"


def _pytest(tree: Path, arguments: Sequence[str], environ: dict[str, str], timeout: float | None = None) -> int:
    """Return pytest's exit code, from a process that has all libraries in memory already; 1 if it took too long."""
    run = get_context("fork").Process(target=_in_tree, args=(tree, arguments, environ))
    run.start()
    run.join(timeout)
    if run.exitcode is None:
        run.kill()
        run.join()
    return run.exitcode or 0


def _in_tree(tree: Path, arguments: Sequence[str], environ: dict[str, str]) -> NoReturn:
    os.setsid()
    os.chdir(tree)
    os.environ.update(environ, PYTHONPATH=str(tree), PYTHONDONTWRITEBYTECODE="")
    sys.dont_write_bytecode = False
    sys.path[:] = [str(tree), *(place for place in sys.path if place not in ("", str(ROOT)))]
    for name in [name for name in sys.modules if name.partition(".")[0] in ("farrier", "tests", "tools")]:
        del sys.modules[name]
    with tree.with_suffix(".log").open("wb") as log:
        os.dup2(log.fileno(), sys.stdout.fileno())
        os.dup2(log.fileno(), sys.stderr.fileno())
    options = ["-q", "-p", "no:cacheprovider", "-p", "tools.mutants", "--ignore=tests/architecture", "--no-header"]
    # Some of these libraries are plugins of pytest, and are in memory before pytest can rewrite them.
    options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
    code = pytest.main([*options, *arguments])
    sys.stdout.flush()
    os._exit(code)


def _copy_to(place: Path) -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, stdout=subprocess.PIPE, check=True, text=True).stdout
    for name in listed.rstrip("\0").split("\0"):
        if (ROOT / name).is_file():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, place / name)


def of_make_test() -> set[str]:
    """Return the tests that `make test` runs in this checkout."""
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-m", "not full", "--no-header"]
    listed = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True, text=True).stdout
    return {_plain(line) for line in listed.splitlines() if "::" in line}


# --- pytest's plugin


def _plain(test: str) -> str:
    """Return the name of a test without the group that xdist appends."""
    return test.removesuffix("@one at a time")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if _ONLY in os.environ:
        order = {test: n for n, test in enumerate(Path(os.environ[_ONLY]).read_text(encoding="utf-8").splitlines())}
        kept = sorted((item for item in items if item.nodeid in order), key=lambda item: order[item.nodeid])
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in order])
        items[:] = kept


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if _TIMES in os.environ and "PYTEST_XDIST_WORKER" not in os.environ:
        with Path(os.environ[_TIMES]).open("a", encoding="utf-8") as file:
            file.write(f"{report.outcome} {report.duration:.4f} {_plain(report.nodeid)}\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["map", "run"])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=200)
    options, arguments = parser.parse_known_args()
    for name in LIBRARIES:
        import_module(name)
    if options.command == "map":
        make_map(options.directory, arguments, seed=options.seed, count=options.count)
        return
    counted: Counter[str] = Counter()
    for found in run(options.directory, small=of_make_test()):
        counted[found.by] += 1
        at = f"{found.mutant.file}:{found.mutant.line}"
        print(f"{found.by:9} {found.seconds:6.1f} s  {at} {found.mutant.what}  {found.last}", flush=True)  # noqa: T201
    print(dict(counted))  # noqa: T201


if __name__ == "__main__":
    main()
