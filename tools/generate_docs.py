"""Generates the parts of the documentation that describe the code, and checks that they are current.

A page has `<!-- generated: NAME -->` … `<!-- end generated -->`. The text between these markers comes from `blocks`,
which reads the model, the settings, the errors, the metrics, the HTTP API, the schema and the imports. `make docs`
rewrites the pages; `--check`, a part of `make check`, prints a diff and fails. People write the text outside of the
markers; it is never changed. The files in `files` are generated as a whole, and their directories contain no
other files. No database is needed.
"""

from __future__ import annotations

import argparse
import difflib
import inspect
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from farrier import config, errors
from farrier.config import templates
from farrier.metrics import definitions, gauges
from farrier.metrics.families import Definition, Gauge
from farrier.model.kinds.built_in import BUILT_IN
from farrier.model.node import details
from farrier.web.agents import operations
from farrier.web.api import table as api
from tests.acceptance.table import CHECKS, REVISION, Verdict
from tools import (
    command_line,
    command_reference,
    library_reference,
    log_events,
    man_pages,
    model_reference,
    packages,
    runbooks,
    site_keys,
    sql_reference,
    trace_walk,
)

T = TypeVar("T")

ROOT = Path(__file__).parents[1]

_BLOCK = re.compile(
    r"(?P<begin>^<!-- generated: (?P<name>[\w-]+) -->\n).*?(?P<end><!-- end generated -->)", re.DOTALL | re.MULTILINE
)


def pages(root: Path = ROOT) -> list[Path]:
    """Return every page of the documentation."""
    return [root / "README.md", *sorted((root / "docs").rglob("*.md"))]


@cache
def blocks() -> Mapping[str, str]:
    """Return the text of each marker, by name."""
    return {
        **_model(),
        **{f"kind-{spec.name.replace('_', '-')}": model_reference.of_kind(spec) for spec in BUILT_IN},
        "settings": _settings(),
        "site-settings": _site_settings(),
        "template-names": _template_names(),
        "details": _details(),
        "errors": _errors(),
        "exit-codes": _exit_codes(),
        "metrics": _metrics(),
        "log-events": _log_events(),
        "http-operations": _http_operations(),
        "agents-operations": _agents_operations(),
        "library": _table(("name", "what it is"), library_reference.names()),
        "client-methods": _table(("method", "what it does"), library_reference.client_methods()),
        "client-errors": _table(("error", "meaning"), library_reference.client_errors()),
        "acceptance": _acceptance(),
        "decisions": _decisions(),
        "walks": trace_walk.markdown(),
        **packages.blocks(),
        **sql_reference.blocks(),
        **runbooks.blocks(),
    }


@cache
def files() -> Mapping[str, str]:
    """Return the files that are generated as a whole, by path."""
    return {
        **{f"docs/reference/commands/{name}": text for name, text in command_reference.pages().items()},
        **{f"docs/reference/man/{name}": text for name, text in man_pages.pages().items()},
    }


def fill(text: str, known: Mapping[str, str]) -> str:
    """Return a page with its blocks filled in. Raises ValueError for an unknown name."""

    def replace(found: re.Match[str]) -> str:
        name = found["name"]
        if name not in known:
            raise ValueError(f"no block is called {name!r}; there are: {', '.join(sorted(known))}")
        return f"{found['begin']}\n{known[name].strip()}\n\n{found['end']}"

    return _BLOCK.sub(replace, text)


def differences(root: Path = ROOT) -> Iterator[str]:
    """Yield the lines of a diff for each page and file that is out of date."""
    for path, text, generated in _generated(root):
        name = path.relative_to(root).as_posix()
        yield from difflib.unified_diff(
            text.splitlines(keepends=True), (generated or "").splitlines(keepends=True), name, f"{name} (generated)"
        )


def rewrite(root: Path = ROOT) -> list[Path]:
    """Update every page and file, and remove the files that are no longer generated. Returns those that changed."""
    changed = []
    for path, text, generated in _generated(root):
        if generated == text:
            continue
        changed.append(path)
        if generated is None:
            path.unlink()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(generated, encoding="utf-8")
    return changed


def _generated(root: Path) -> Iterator[tuple[Path, str, str | None]]:
    """Yield each page and file, with its text on disk and its generated text: None if it is no longer generated."""
    known, whole = blocks(), {root / name: text for name, text in files().items()}
    left: dict[Path, str | None] = {
        path: None for directory in {path.parent for path in whole} for path in directory.glob("*")
    }
    for page in pages(root):
        if page not in left | whole:
            text = page.read_text(encoding="utf-8")
            yield page, text, fill(text, known)
    for path, generated in (left | whole).items():
        yield path, path.read_text(encoding="utf-8") if path.exists() else "", generated


def _model() -> dict[str, str]:
    """Return the sections of the model, named by their titles, such as `onboarding-stages`."""
    return {re.sub(r"\W+", "-", title.lower()): text for title, text in model_reference.sections().items()}


def _settings() -> str:
    rows = [
        (
            f"`{s.section}.{s.key}`" if s.key else f"`[{s.section}]`",
            f"`{s.default}`" if s.default else "",
            s.description,
        )
        for s in config.settings()
    ]
    return _table(("setting", "default", "meaning"), rows)


def _site_settings() -> str:
    rows = [
        (
            f"`{s.table}`",
            f"`{s.key}`",
            "required" if s.required else f"`{s.default}`" if s.default else "",
            s.description,
        )
        for s in site_keys.every()
    ]
    return _table(("table", "key", "default", "what it does"), rows)


def _template_names() -> str:
    rows = [
        *((f"`{name}`", meaning) for name, meaning in templates.GIVEN.items()),
        *((f"`node.{name}`", meaning) for name, meaning in templates.NODE.items()),
        *((f"`node.bmc.{name}`", meaning) for name, meaning in templates.BMC.items()),
        *((f"`segments[NAME].{name}`", meaning) for name, meaning in templates.SEGMENT.items()),
        *((f"`agents.{name}`", meaning) for name, meaning in templates.AGENTS.items()),
        ("any other name", "a value of `cloud_init.variables`"),
    ]
    return _table(("name", "what it is"), rows)


def _details() -> str:
    rows = [
        (f"`{name}`", detail.help, detail.free_when.text, "yes" if detail.listed else "")
        for name, detail in details.DETAILS.items()
    ]
    return _table(("detail", "what it is", "`set` is accepted", "in lists, and their filter"), rows)


def _acceptance() -> str:
    counted = Counter(check.verdict for check in CHECKS)
    summary = ", ".join(f"{counted[verdict]} {verdict}" for verdict in Verdict)
    rows = [(check.id, check.subject, check.verdict, check.why) for check in sorted(CHECKS, key=lambda each: each.id)]
    table = _table(("check", "subject", "result", "how"), rows)
    return f"Of {len(CHECKS)} checks of revision `{REVISION[:12]}`: {summary}.\n\n{table}"


def _exit_codes() -> str:
    rows = [
        (
            str(code.value),
            code.name.lower(),
            ", ".join(f"`{error.label}`" for error in _tree() if error.exit_code is code),
        )
        for code in errors.ExitCode
    ]
    return _table(("code", "meaning", "errors that end with this code"), rows)


def _log_events() -> str:
    rows = [
        (f"`{event.name}`", ", ".join(event.levels), ", ".join(f"`{key}`" for key in event.keys))
        for event in log_events.events()
    ]
    return _table(("event", "level", "keys"), rows)


def _errors() -> str:
    rows = [(f"`{error.label}`", error.fate.value, _first_line(inspect.getdoc(error) or "")) for error in _tree()]
    return _table(("label", "fate", "meaning"), rows)


def _tree(root: type[errors.FarrierError] = errors.FarrierError) -> Iterator[type[errors.FarrierError]]:
    """Return the tree of errors that `farrier.errors` defines, in source order."""
    for error in vars(errors).values():
        if isinstance(error, type) and issubclass(error, root) and error is not root:
            yield error


def _metrics() -> str:
    counted = [
        (f"`{d.series}`", "histogram" if d.buckets else "counter", _labels(d.labels), d.help)
        for d in _of(definitions, Definition)
    ]
    figures = [(f"`{g.name}`", "gauge", _labels(g.labels), g.help) for g in _of(gauges, Gauge)]
    return _table(("metric", "type", "labels", "meaning"), [*figures, *counted])


def _of(module: ModuleType, type_: type[T]) -> list[T]:
    """Return the values of a type that a module defines, in source order."""
    return [value for value in vars(module).values() if isinstance(value, type_)]


def _labels(labels: Iterable[str]) -> str:
    return ", ".join(f"`{label}`" for label in labels)


def commands() -> Mapping[str, str]:
    """Return every command with the first sentence of its help."""
    return {command.name: command.paragraphs[0] for command in command_line.commands()}


def _http_operations() -> str:
    """Return the operations of the HTTP API, in the order of their table."""
    rows = [
        (f"`{each.method} {each.path}`", " ".join((inspect.getdoc(each.respond) or "").split()), each.scope.value)
        for each in api.OPERATIONS
    ]
    return _table(("operation", "what it does", "scope"), rows)


def _agents_operations() -> str:
    """Return the operations of the agents' API, in the order of their table."""
    rows = [
        (f"`{each.method} {each.path}`", " ".join((inspect.getdoc(each.respond) or "").split()))
        for each in operations.OPERATIONS
    ]
    return _table(("operation", "what it does"), rows)


def _decisions() -> str:
    """Return the numbers and titles of the decisions, from their pages."""
    found = sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))
    titles = [page.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ").split(". ", 1) for page in found]
    rows = [(f"[{number}]({page.name})", title) for page, (number, title) in zip(found, titles, strict=True)]
    return _table(("", "decision"), rows)


def _first_line(text: str) -> str:
    """Return the first sentence or paragraph, on one line."""
    return " ".join(text.split("\n\n", maxsplit=1)[0].split())


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = tuple(head)
    lines = [head, ("---",) * len(head), *rows]
    return "".join("| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |\n" for cells in lines)


def main() -> int:
    """Run the command. Returns 0 if the pages are up to date at its end."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.generate_docs", description="Fill in generated documentation."
    )
    parser.add_argument("--check", action="store_true", help="change nothing; print a diff and fail if there is one")
    if parser.parse_args().check:
        diff = "".join(differences())
        sys.stdout.write(diff)
        if diff:
            sys.stdout.write("\nThe documentation is out of date; run: make docs\n")
        return 1 if diff else 0
    for page in rewrite():
        sys.stdout.write(f"rewrote {page.relative_to(ROOT)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
