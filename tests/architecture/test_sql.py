"""Rules for every SQL file, and a check that each statement fits the schema."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

from farrier.io import statements
from farrier.io.kinds.node import SECTIONS
from tests.architecture import sources
from tests.architecture.test_python import LONGEST_FILE
from tests.support import pg

READS_TIME = re.compile(
    r"(?<!farrier\.)\bnow\s*\(|\b(?:clock|statement|transaction)_timestamp\b"
    r"|\bcurrent_(?:timestamp|time|date)\b|\blocaltime(?:stamp)?\b|\btimeofday\b",
    re.IGNORECASE,
)
# The function that returns the time, and objects that are created before that function.
OLDER_THAN_THE_CLOCK = {"time/now.sql", "tables/00_schema.sql", "schema/record_set.sql"}


WORD = re.compile(r"\w+")
RIGHTS = sources.SCHEMA / "rights"
CONTRACT = [sources.ROOT / "docs" / "integrate" / name for name in ("sql.md", "own-kind.md")]
CALLED_BY_FORM = re.compile(r"\w+_(detail|unseen)")  # farrier computes these names from the kind's name

# Files that need no comment: a trigger's file is a single statement.
SPEAK_FOR_THEMSELVES = sources.SCHEMA / "triggers"


def test_a_file_begins_with_a_comment_about_its_purpose() -> None:
    silent = [
        path.relative_to(sources.ROOT)
        for path in sources.sql_files()
        if SPEAK_FOR_THEMSELVES not in path.parents and not re.match(r"-- \S.{15,}\n", path.read_text(encoding="utf-8"))
    ]
    assert not silent


def test_a_file_is_short() -> None:
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in sources.sql_files()}
    assert not [path for path, lines in lengths.items() if lines > LONGEST_FILE]


def test_the_time_is_read_through_farrier_now_and_nowhere_else() -> None:
    others = [
        f"{path.relative_to(sources.ROOT)}: {found.group()}"
        for path in sources.sql_files()
        if "/".join(path.parts[-2:]) not in OLDER_THAN_THE_CLOCK
        for found in READS_TIME.finditer(sources.bare_sql(path))
    ]
    assert not others


def test_nodes_rehearse_every_section_that_their_writers_read() -> None:
    writers = (
        sources.SCHEMA / "functions" / name
        for name in ("nodes/write_nodes.sql", "networks/write_nodes_and_networks.sql")
    )
    found = re.findall(r"changes \?\|? '{?([\w,]+)", "".join(path.read_text(encoding="utf-8") for path in writers))
    assert {name for names in found for name in names.split(",")} == set(SECTIONS)


def test_no_sql_uses_an_advisory_lock() -> None:
    """Every login may take an advisory lock, and would block the program that needs it."""
    assert not [path.name for path in sources.sql_files() if "advisory" in sources.bare_sql(path)]


def test_a_statement_stores_a_commit_id_exactly_if_it_writes_a_run() -> None:
    """From the stored ID, settle_runs concludes that a commit without a reply succeeded."""
    increment = re.compile(r"\bSET version = (?:\w+\.)?version \+ 1,?(?P<stores>\s*commit_id = )?")
    wrong = [
        path.stem
        for path in sources.sql_files()
        for found in increment.finditer(sources.bare_sql(path))
        if path.stem.startswith("write_") != (found["stores"] is not None)
    ]
    assert not wrong


def test_every_statement_is_loaded_by_python() -> None:
    loads = [
        call.args[0]
        for module in sources.modules(sources.FARRIER)
        for call in sources.each(module, ast.Call)
        if isinstance(call, ast.Call) and sources.dotted(call.func) == "statements.load"
    ]
    used = re.compile("|".join(map(pattern_of, loads)))
    assert not [name for name in statements.names() if not used.fullmatch(name)]


def test_every_function_and_view_has_a_caller() -> None:
    """A caller is another object, a statement, a string in Python, or a page of the contract, but not a right."""
    sql = Counter(
        word
        for path in sources.sql_files()
        if path.parent != RIGHTS
        for word in set(WORD.findall(sources.uncommented_sql(path)))  # counts also the file that creates the object
    )
    pages = [page.read_text(encoding="utf-8") for page in CONTRACT]
    outside = {word for text in [*pages, *strings_of(sources.FARRIER)] for word in WORD.findall(text)}
    objects = [path.stem for room in ("functions", "views") for path in (sources.SCHEMA / room).rglob("*.sql")]
    assert not [
        name for name in objects if sql[name] < 2 and name not in outside and not CALLED_BY_FORM.fullmatch(name)
    ]


def strings_of(room: Path) -> list[str]:
    """The strings of all Python files, including docstrings."""
    constants = (node for module in sources.modules(room) for node in sources.each(module, ast.Constant))
    return [node.value for node in constants if isinstance(node, ast.Constant) and isinstance(node.value, str)]


def pattern_of(name: ast.expr) -> str:
    """A pattern for the name: a literal, or an f-string whose placeholders stand for members of an enum."""
    pieces = name.values if isinstance(name, ast.JoinedStr) else [name]
    return "".join(re.escape(str(p.value)) if isinstance(p, ast.Constant) else "[a-z_]+" for p in pieces)


# The query of snapshots that a kind inserts into loop/load.
SNAPSHOTS = "(SELECT id, now, snapshot FROM farrier.load_resources('network_segment', $1::bigint[]))"


def of_a_kind(name: str) -> str:
    """The statement with what a kind inserts into it. The part of a kind is tested in the commit."""
    statement = statements.load(name)
    if name == "loop/commit":
        name, statement = "loop/write", statements.load("loop/write")
    if name in ("loop/write", "node/write"):
        statement = statements.load("loop/commit").replace("(of_kind)", f"({statement}\n)")
    return statement.replace("(of_kind)", SNAPSHOTS).replace("writer_of_kind", "farrier.write_network_segments")


async def test_every_statement_fits_the_schema(every_db: pg.Database) -> None:
    misfits = []
    async with every_db.connect() as conn:
        for name in statements.names():
            try:
                await conn.prepare(of_a_kind(name))
            except pg.PostgresError as error:
                misfits.append(f"{name}: {error}")
    assert not misfits


async def test_statements_of_reading_commands_use_no_array_type_but_text(db: pg.Database) -> None:
    """asyncpg asks the server once in a session about each array type but `text[]`. Each command has a new session."""
    asked = []
    async with db.connect() as conn:
        for name in statements.names():
            if name.startswith(("queries/", "resources/")):
                statement = await conn.prepare(statements.load(name))
                types = (*statement.get_parameters(), *(column.type for column in statement.get_attributes()))
                arrays = {type_.name for type_ in types if type_.kind == "array"}
                asked += [f"{name}: {array}" for array in arrays - {"text[]"}]
    assert asked == []
