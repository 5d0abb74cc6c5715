"""The documentation agrees with the code: generated parts, links, tables and error codes."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatch
from itertools import chain
from pathlib import Path

import pytest
import typer

from farrier import cli, config
from farrier.io.schema import files
from farrier.model.node import layers
from tests.architecture import sources
from tests.support import pages
from tools import generate_docs, model_reference, packages, site

PAGES = sorted({*generate_docs.pages(), *sources.ROOT.glob("*.md")})
TEXTS = {page: page.read_text(encoding="utf-8") for page in PAGES}
MARKER = re.compile(r"^<!-- (?:end )?generated\b[^>]*-->$", re.MULTILINE)
LINK = re.compile(r"\]\((?!https?://)([^)#\s]*)(#[^)\s]*)?\)")
CUT = re.compile(r"^\|.*\|\n\n+(\|.*\|)\n(?!\|[ :-]*-)", re.MULTILINE)
SQLSTATE = re.compile(r"\bFR\d{3}\b")
TABLE = re.compile(r"^CREATE (?:UNLOGGED )?TABLE (?:IF NOT EXISTS )?farrier\.(\w+)", re.MULTILINE)
EVENT = re.compile(r"`([a-z_]+\.(?:failed|lost|crashed))`")
NAME = re.compile(r"\bfarrier_[a-z_]+")
COMMAND = re.compile(r"(?:^|`|\()farrier ([a-z]+)(?: +([a-z]+(?:-[a-z]+)*))?", re.MULTILINE)
# A command in a block, up to the first character that the shell interprets.
SHOWN = re.compile(r"""(?:^|[|;&(] *|/)farrier ((?:'[^'\n]*'|"[^"\n]*"|[^|;&<>#)'"\n])+)""", re.MULTILINE)
FUNCTION = re.compile(r"farrier\.(\w+)\(")
PYTHON = re.compile(r"```python\n.*?```", re.DOTALL)
PSQL = re.compile(r"(?:^|[|;&] *)psql\b.*", re.MULTILINE)
# psql does not read farrier's settings; without a DSN it connects to any server that listens on this machine.
NAMES_ITS_DATABASE = re.compile(r'psql (?:-v \S+ )?"(?:\$FARRIER_DATABASE_DSN|\$\(farrier db url\b|postgresql://)')

REFERENCE = sources.ROOT / "docs" / "reference"
RIGHTS = sources.SCHEMA / "rights"
# Sections of the model that the reference of failures shows in another form.
ADVICE = ["conditions", "bmc-failures"]
OF_THE_MODEL = ("state-model.md", "reference/intents.md", "reference/limits.md")
DECISIONS = sources.ROOT / "docs" / "decisions" / "README.md"
ERRORS = sources.ROOT / "docs" / "reference" / "errors.md"
SOURCES = "".join(
    path.read_text(encoding="utf-8") for path in sorted(sources.FARRIER.rglob("*")) if path.suffix in {".py", ".sql"}
)

# Metrics of the kind that the tutorial defines; the tutorial's own test checks them.
OF_THE_TUTORIAL = "farrier_kind_volume"


def test_the_state_model_shows_every_section_of_the_model() -> None:
    """The sections that a reader looks up, and does not read, are in the reference."""
    model = set(model_reference.sections().values())
    shown = "".join(TEXTS[sources.ROOT / "docs" / name] for name in OF_THE_MODEL)
    sections = {name: text for name, text in generate_docs.blocks().items() if text in model}
    assert len(sections) > len(layers.Layer)
    assert [name for name, text in sections.items() if text.strip() not in shown] == ADVICE


def test_the_reference_of_failures_has_the_advice_for_each_condition_and_each_failure_of_a_bmc() -> None:
    lines = [line for name in ADVICE for line in generate_docs.blocks()[name].strip().splitlines()[2:]]
    advice = [line.removesuffix(" |").split(" | ")[-1] for line in lines if line.startswith("| ")]
    assert len(advice) > 20
    assert not [text for text in advice if text not in TEXTS[REFERENCE / "failures.md"]]


def test_a_page_whose_model_changed_is_found(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text("<!-- generated: packages -->\nold\n<!-- end generated -->\nkept\n")
    assert any(line.startswith("-old") for line in generate_docs.differences(tmp_path))
    assert tmp_path / "README.md" in generate_docs.rewrite(tmp_path)
    assert list(generate_docs.differences(tmp_path)) == []
    assert (tmp_path / "README.md").read_text().endswith("<!-- end generated -->\nkept\n")


def test_a_generated_file_that_is_out_of_date_is_found(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text("")
    generate_docs.rewrite(tmp_path)
    commands = tmp_path / "docs" / "reference" / "commands" / "node.md"
    written = commands.read_text()
    commands.write_text(f"edited\n{written}")
    assert any(line.startswith("-edited") for line in generate_docs.differences(tmp_path))
    assert generate_docs.rewrite(tmp_path) == [commands]
    assert commands.read_text() == written


@pytest.mark.parametrize("name", ["commands/gone.md", "man/farrier-gone.1"])
def test_a_file_that_is_no_longer_generated_is_found_and_removed(tmp_path: Path, name: str) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text("")
    generate_docs.rewrite(tmp_path)
    left = tmp_path / "docs" / "reference" / name
    left.write_text("the page of a command that was removed\n")
    assert any(line.startswith("-the page") for line in generate_docs.differences(tmp_path))
    assert generate_docs.rewrite(tmp_path) == [left]
    assert not left.exists()


def test_a_marker_without_a_generated_block_is_refused() -> None:
    with pytest.raises(ValueError, match="no block is called 'rumours'"):
        generate_docs.fill("<!-- generated: rumours -->\n<!-- end generated -->", {"packages": ""})


def on_every_page(faults: Callable[[Path], Iterable[object]]) -> list[str]:
    """The faults of all pages, each with the page's name."""
    return [f"{page.relative_to(sources.ROOT)}: {fault}" for page in PAGES for fault in faults(page)]


def test_markers_come_in_pairs() -> None:
    def unpaired(page: Path) -> list[list[str]]:
        kinds = ["end" if "end generated" in marker else "begin" for marker in MARKER.findall(TEXTS[page])]
        return [] if kinds == ["begin", "end"] * (len(kinds) // 2) else [kinds]

    assert not on_every_page(unpaired)


def test_a_link_within_the_project_leads_to_an_existing_file_and_heading() -> None:
    def broken(page: Path) -> Iterator[str]:
        for target, anchor in LINK.findall(TEXTS[page]):
            place = (page.parent / target).resolve() if target else page
            if not place.exists() or (anchor and anchor[1:] not in anchors(place)):
                yield target + anchor

    assert not on_every_page(broken)


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as links name them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_no_empty_line_cuts_a_table() -> None:
    """Rows after an empty line are shown as text, unless they begin a table of their own."""
    assert not on_every_page(lambda page: CUT.findall(TEXTS[page]))


def test_every_error_code_of_the_database_is_explained_and_no_other() -> None:
    raised = set(SQLSTATE.findall("".join(path.read_text(encoding="utf-8") for path in sources.sql_files())))
    assert set(SQLSTATE.findall(TEXTS[ERRORS])) == raised


def test_metrics_roles_and_log_events_on_pages_exist_in_the_program() -> None:
    """Metrics, roles and channels; events of the log."""

    def unknown(page: Path) -> set[str]:
        names = {name.removesuffix("_total").rstrip("_") for name in NAME.findall(TEXTS[page])}
        names |= set(EVENT.findall(TEXTS[page]))
        return {name for name in names if name not in SOURCES and not name.startswith(OF_THE_TUTORIAL)}

    assert not on_every_page(unknown)


def test_the_reference_says_what_a_row_of_each_table_means() -> None:
    tables = set(TABLE.findall("".join(path.read_text(encoding="utf-8") for path in sources.sql_files())))
    meanings = dict(re.findall(r"^\| `(\w+)` \|.*\| (.*) \|$", TEXTS[REFERENCE / "tables.md"], re.MULTILINE))
    assert meanings.keys() == tables
    assert not [table for table, meaning in meanings.items() if len(meaning) < 15]


def test_the_page_on_sql_has_each_function_that_another_program_may_call() -> None:
    granted = {
        what.removeprefix("EXECUTE ON FUNCTION farrier.")
        for path in sorted(RIGHTS.glob("farrier_[!c]*.sql"))
        for statement in path.read_text(encoding="utf-8").split(";")
        if "-- For farrier's own programs." not in statement
        for what, _ in files.rights_of(f"{statement};")
        if what.startswith("EXECUTE")
    }
    listed = set(re.findall(r"^\| `(\w+)\(", TEXTS[sources.ROOT / "docs" / "integrate" / "sql.md"], re.MULTILINE))
    assert len(granted) > 20
    assert granted - listed == set()


def test_the_picture_of_the_packages_has_a_way_for_each_import_and_no_other() -> None:
    architecture = TEXTS[sources.ROOT / "docs" / "architecture.md"]
    (picture,) = re.findall(r"<!-- generated: packages -->\n\n```mermaid\n(.*?)```", architecture, re.DOTALL)
    arrows: dict[str, set[str]] = defaultdict(set)
    for package, other in re.findall(r"(\w+) --> (\w+)", picture):
        arrows[package].add(other)
    drawn = {package: frozenset(others) for package, others in arrows.items()}
    for package, others in packages.imports().items():
        assert others <= packages.reached(drawn, package), package
        assert drawn.get(package, frozenset()) <= others, package
    assert drawn.keys() <= packages.imports().keys()


def test_the_table_of_folders_has_each_folder_of_the_package() -> None:
    architecture = TEXTS[sources.ROOT / "docs" / "architecture.md"]
    listed = set(re.findall(r"^\| `([\w/]+)` \| \S.*\|$", architecture, re.MULTILINE))
    folders = {path.parent.relative_to(sources.FARRIER).as_posix() for path in sources.FARRIER.rglob("*.py")} - {"."}
    assert folders <= listed


def test_a_command_that_a_page_shows_exists() -> None:
    known = generate_docs.commands()
    groups = {command.split()[1] for command in known if command.count(" ") == 2}

    def unknown(page: Path) -> Iterator[str]:
        for first, second in commands_on(page):
            shown = f"farrier {first} {second}".rstrip() if first in groups else f"farrier {first}"
            if shown not in known:
                yield shown

    assert not on_every_page(unknown)


def test_the_command_line_accepts_each_command_in_a_block_with_its_options() -> None:
    def not_understood(page: Path) -> Iterator[str]:
        for block in pages.blocks(page):
            for command in SHOWN.findall(block.text.replace("\\\n", " ")) if block.is_typed else ():
                if (error := refused(shlex.split(command))) is not None:
                    yield f"farrier {command}: {error}"

    assert not on_every_page(not_understood)


def refused(words: list[str]) -> str | None:
    """The error of the command line for these words; None if it accepts them."""
    try:
        command = typer.main.get_command(cli.load(words[0]))
        context = command.make_context(words[0], words[1:])
        if isinstance(command, typer.core.TyperGroup):
            _, sub, rest = command.resolve_command(context, [*context._protected_args, *context.args])
            assert sub is not None
            sub.make_context(sub.name, rest, parent=context)
    except Exception as error:  # typer's own classes have no public name
        return getattr(error, "message", None) or repr(error)
    return None


def test_a_command_that_the_command_line_refuses_is_found() -> None:
    assert refused(["node", "list", "--json"]) is None
    assert "--jsn" in (refused(["node", "list", "--jsn"]) or "")
    assert refused(["node", "why"]) is not None


def test_each_psql_command_on_a_page_names_its_database() -> None:
    def without_one(page: Path) -> list[str]:
        shown = [line.strip() for block in blocks_on(page) for line in PSQL.findall(block)]
        return [line for line in shown if not NAMES_ITS_DATABASE.search(line)]

    assert not on_every_page(without_one)


def blocks_on(page: Path) -> list[str]:
    """The code blocks of a page."""
    return re.findall(r"```\w*\n(.*?)```", TEXTS[page], re.DOTALL)


def commands_on(page: Path) -> list[tuple[str, str]]:
    """The two words after each `farrier` that begins a line of a code block, a span in backticks, or a $(…)."""
    code = "\n".join(blocks_on(page) + re.findall(r"`[^`\n]+`", TEXTS[page]))
    return COMMAND.findall(code)


def test_a_setting_that_is_listed_is_read_by_the_program() -> None:
    settings = sources.FARRIER / "config"
    # The readers of sites and tokens use settings themselves; the other modules there define them.
    readers = {settings / "site_files.py", settings / "token_file.py"}
    modules = [m for m in sources.modules(sources.FARRIER) if settings not in m.path.parents or m.path in readers]
    code = "".join(m.text for m in modules)
    names = [setting.key or setting.section for setting in config.settings()]
    assert not [name for name in names if not re.search(rf"\.{name}\b", code)]


def test_every_page_is_on_the_site_exactly_once() -> None:
    """`mkdocs.yml` has each page of docs/, and each page that `tools/site.py` adds, exactly once."""
    docs = sources.ROOT / "docs"
    settings = (sources.ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    entries = re.findall(r"^ *- (?:[^:\n]+: )?(\S+\.md|\S+\*)$", settings, re.MULTILINE)
    written = [page.relative_to(docs).as_posix() for page in docs.rglob("*.md")]
    placed = {name: sum(fnmatch(name, entry) for entry in entries) for name in (*written, *site.OUTSIDE.values())}
    assert {name: times for name, times in placed.items() if times != 1} == {}
    assert [entry for entry in entries if not any(fnmatch(name, entry) for name in placed)] == []


def test_functions_that_a_page_calls_are_in_the_schema() -> None:
    made = set(
        re.findall(r"CREATE OR REPLACE FUNCTION farrier\.(\w+)", "".join(p.read_text() for p in sources.sql_files()))
    )
    assert not on_every_page(lambda page: set(FUNCTION.findall(PYTHON.sub("", TEXTS[page]))) - made)


def test_a_decision_is_one_page() -> None:
    pages = sorted(DECISIONS.parent.glob("[0-9]*.md"))
    assert len({page.name[:4] for page in pages}) == len(pages)
    for page in pages:
        assert TEXTS[page].startswith(f"# {int(page.name[:4])}. "), page.name
        assert len(TEXTS[page].splitlines()) <= 30, page.name
        for heading in ("Context", "Decision", "Rejected", "Consequence"):
            assert f"**{heading}.**" in TEXTS[page], f"{page.name} lacks {heading}"


def test_each_dependency_has_a_reason() -> None:
    project = tomllib.loads((sources.ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = [*project["dependencies"], *chain(*project["optional-dependencies"].values())]
    names = {re.split(r"[\[<>=]", need)[0] for need in needed} - {"farrier"}
    given = set(re.findall(r"[\w-]+", " ".join(re.findall(r"^\| (.+?) \|", TEXTS[DECISIONS], re.MULTILINE))))
    assert names - given == set()
