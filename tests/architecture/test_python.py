"""Rules for every Python file that ruff, mypy and import-linter cannot check."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.architecture import sources

OURS = sources.modules(sources.FARRIER, sources.AGENT, sources.TESTS, sources.BENCH, sources.TOOLS, sources.EXAMPLES)
PACKAGE = sources.modules(sources.FARRIER)
TESTS = sources.modules(sources.TESTS)

LONGEST_FILE = 500
LONGEST_FUNCTION = 60

# Files in which an unforeseen exception must fail no more than one run or one call.
CATCHES_EVERYTHING = {
    "farrier/controller/runner.py",
    "farrier/services/bmc/client.py",  # every exception of a call becomes a failure class
    "farrier/process.py",
    "farrier/wiring/loops.py",  # the services of another package may raise anything; the error names their kind
    "farrier/metrics/fleet.py",  # a failed count must not hide other metrics
}

# Files that may sleep: a server that drips its response, a step that tests kill in the middle, and the pause between
# polls of another process. No test waits for something by sleeping.
SETS_A_PACE = {"tests/support/again.py", "tests/support/bmc.py", "tests/support/lamps.py"}
LIMITS_OF_TIME = {"move_on_after", "fail_after"}

LOG_METHODS = {"debug", "info", "warning", "error", "exception", "critical"}
LOGGERS = {"log", "_log", "logger", "self._log", "self.log"}
EVENT = re.compile(r"[a-z]+([._][a-z]+)+")

WALL_CLOCKS = {
    "datetime.now",
    "datetime.utcnow",
    "datetime.today",
    "datetime.datetime.now",
    "date.today",
    "time.time",
    "time.time_ns",
}
# A certificate is checked by the clock of the client, and the expiry of a token before the database responds. Spans of
# many programs are compared by the clocks of hosts.
READS_THE_WALL_CLOCK = {"farrier/clock.py", "farrier/sim/bmc.py", "farrier/wiring/traces.py"}
HOLDS_A_CONNECTION = ("acquire", "borrowed")


def function_length(function: sources.Function) -> int:
    """The lines of a function without its docstring, which may be long."""
    doc = function.body[0] if ast.get_docstring(function, clean=False) is not None else None
    doc_lines = (doc.end_lineno or 0) - doc.lineno + 1 if doc else 0
    return (function.end_lineno or 0) - function.lineno + 1 - doc_lines


def test_a_file_has_a_docstring_and_files_and_functions_have_a_bounded_length() -> None:
    assert not [module.name for module in OURS if not ast.get_docstring(module.tree)]
    assert not [module.name for module in OURS if len(module.text.splitlines()) > LONGEST_FILE]
    too_long = [
        module.at(node)
        for module in OURS
        for node in sources.each(module, ast.FunctionDef, ast.AsyncFunctionDef)
        if isinstance(node, sources.Function) and function_length(node) > LONGEST_FUNCTION
    ]
    assert not too_long


def test_every_task_has_an_owner_that_waits_for_it() -> None:
    orphans = [
        module.at(node)
        for module in OURS
        for node in sources.each(module, ast.Call)
        if called(node) in {"create_task", "ensure_future"}
    ]
    assert not orphans, "use an anyio task group"


def test_no_test_sleeps() -> None:
    """Tests wait for events, and let time pass by moving a clock. `sleep(0)` only lets other tasks run."""
    sleepers = [
        module.at(node)
        for module in TESTS
        if module.name not in SETS_A_PACE
        for node in sources.each(module, ast.Call, ast.With)
        if sleeps(node) or lets_time_pass(node)
    ]
    assert not sleepers


def sleeps(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call) or called(node) != "sleep":
        return False
    return not (isinstance(node.args[0], ast.Constant) and node.args[0].value == 0)


def lets_time_pass(node: ast.AST) -> bool:
    """Whether a block waits for ever until a time limit ends it, which is a sleep, too."""
    if not isinstance(node, ast.With) or not any(called(item.context_expr) in LIMITS_OF_TIME for item in node.items):
        return False
    return any(called(inner) == "sleep_forever" for statement in node.body for inner in ast.walk(statement))


def called(node: ast.AST) -> str:
    """The last part of the name of what a node calls; empty if it calls nothing."""
    return sources.dotted(node.func).rpartition(".")[2] if isinstance(node, ast.Call) else ""


def test_no_test_mocks() -> None:
    mocks = [
        module.at(node)
        for module in TESTS
        for node in sources.each(module, ast.Import, ast.ImportFrom)
        if "mock" in ast.dump(node)
    ]
    assert not mocks


def test_only_listed_files_catch_every_exception() -> None:
    broad = [
        (module, node)
        for module in PACKAGE
        for node in sources.each(module, ast.ExceptHandler)
        if isinstance(node, ast.ExceptHandler) and catches_everything(node, module) and not passes_on(node)
    ]
    assert not [module.at(node) for module, node in broad if module.name not in CATCHES_EVERYTHING]
    assert {module.name for module, _ in broad} == CATCHES_EVERYTHING, "a listed file no longer catches everything"


def catches_everything(handler: ast.ExceptHandler, module: sources.Module) -> bool:
    return handler.type is None or bool(names_in(handler.type, module) & {"Exception", "BaseException"})


def names_in(caught: ast.expr, module: sources.Module) -> set[str]:
    """The exceptions that an expression names: one, a tuple, or a variable of the module with a tuple."""
    if isinstance(caught, ast.Starred):
        return names_in(caught.value, module)
    if isinstance(caught, ast.Tuple):
        return {name for one in caught.elts for name in names_in(one, module)}
    name = sources.dotted(caught)
    for statement in module.tree.body:
        if isinstance(statement, ast.Assign) and name in map(sources.dotted, statement.targets):
            return names_in(statement.value, module)
    return {name}


def passes_on(handler: ast.ExceptHandler) -> bool:
    """Whether the handler always ends by raising the same exception."""
    last = handler.body[-1]
    inside = (node for statement in handler.body for node in ast.walk(statement))
    leaves = any(isinstance(node, ast.Return | ast.Break | ast.Continue) for node in inside)
    return isinstance(last, ast.Raise) and last.exc is None and not leaves


def test_log_events_are_constant_names_so_that_they_can_be_searched_and_counted() -> None:
    free_texts = [
        module.at(call)
        for module in PACKAGE
        for call in sources.each(module, ast.Call)
        if isinstance(call, ast.Call) and is_log_call(call) and not has_constant_event(call)
    ]
    assert not free_texts


def is_log_call(call: ast.Call) -> bool:
    logger, _, method = sources.dotted(call.func).rpartition(".")
    return logger in LOGGERS and method in LOG_METHODS


def has_constant_event(call: ast.Call) -> bool:
    event = call.args[0] if len(call.args) == 1 else None
    return isinstance(event, ast.Constant) and bool(EVENT.fullmatch(str(event.value)))


def test_the_time_of_day_is_the_database_s() -> None:
    clocks = [
        module.at(node)
        for module in PACKAGE
        if module.name not in READS_THE_WALL_CLOCK
        for node in sources.each(module, ast.Call)
        if isinstance(node, ast.Call) and sources.dotted(node.func) in WALL_CLOCKS
    ]
    assert not clocks, "take `now` as an argument; it comes from farrier.now()"


def test_a_match_on_a_union_ends_in_assert_never() -> None:
    """With it, mypy finds every match that lacks a new member."""
    open_ended = [
        module.at(match)
        for module in PACKAGE
        for function in sources.each(module, ast.FunctionDef, ast.AsyncFunctionDef)
        for match in ast.walk(function)
        if isinstance(match, ast.Match) and isinstance(function, sources.Function)
        if is_on_union(match) and not takes_anything(match, function) and not ends_in_assert_never(match)
    ]
    assert not open_ended


def is_on_union(match: ast.Match) -> bool:
    """Whether patterns name farrier's classes or members of an enum; other patterns do not list a closed set."""
    for node in (inner for case in match.cases for inner in ast.walk(case.pattern)):
        if isinstance(node, ast.MatchClass):
            name = sources.dotted(node.cls)
            if name.rpartition(".")[2][:1].isupper() and not name.startswith("msgspec."):
                return True
        if isinstance(node, ast.MatchValue) and isinstance(node.value, ast.Attribute):
            return True
    return False


def takes_anything(match: ast.Match, function: sources.Function) -> bool:
    """Whether the subject is a parameter of type `object`, whose values no match can list."""
    arguments = (*function.args.args, *function.args.kwonlyargs)
    open_names = {a.arg for a in arguments if a.annotation and sources.dotted(a.annotation) == "object"}
    return sources.dotted(match.subject) in open_names


def ends_in_assert_never(match: ast.Match) -> bool:
    last = match.cases[-1]
    calls = (node for node in ast.walk(last.body[0]) if isinstance(node, ast.Call))
    irrefutable = isinstance(last.pattern, ast.MatchAs) and last.guard is None
    return irrefutable and any(sources.dotted(call.func).endswith("assert_never") for call in calls)


def test_only_the_connection_is_awaited_while_it_is_held() -> None:
    """A connection that is held during an external call is not available for a thousand other nodes."""
    foreign = [
        module.at(node)
        for module in PACKAGE
        for block in sources.each(module, ast.AsyncWith)
        if isinstance(block, ast.AsyncWith) and holds_a_connection(block)
        for node in awaits_without(block, names_of(block))
    ]
    assert not foreign


def holds_a_connection(block: ast.AsyncWith) -> bool:
    return any(called(item.context_expr) in HOLDS_A_CONNECTION for item in block.items)


def names_of(block: ast.AsyncWith) -> set[str]:
    targets = (item.optional_vars for item in block.items if item.optional_vars is not None)
    return {node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)}


def awaits_without(block: ast.AsyncWith, names: set[str]) -> Iterator[ast.Await]:
    for node in (inner for statement in block.body for inner in ast.walk(statement)):
        if isinstance(node, ast.Await):
            mentioned = {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
            if not mentioned & names:
                yield node


def test_only_the_package_io_imports_the_postgresql_driver() -> None:
    others = [
        module.at(node)
        for module in PACKAGE
        if sources.FARRIER / "io" not in module.path.parents
        for node in sources.each(module, ast.Import, ast.ImportFrom)
        if "asyncpg" in ast.dump(node)
    ]
    assert not others


def test_sql_is_not_assembled_from_strings() -> None:
    """Statements come from files by name, and values go in as `$n`."""
    verbs = {
        "execute",
        "executemany",
        "fetch",
        "fetchrow",
        "fetchval",
        "prepare",
        "cursor",
        "copy_from_query",
    }
    assembled = [
        module.at(call)
        for module in PACKAGE
        for call in sources.each(module, ast.Call)
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr in verbs
        and call.args
        and isinstance(call.args[0], ast.JoinedStr | ast.BinOp | ast.Call)
    ]
    assert not assembled
