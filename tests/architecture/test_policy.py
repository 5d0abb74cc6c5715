"""What is the model's to say, no SQL says again: it reads the tables that `farrier.io.catalog` fills from the model."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from farrier.model import workflow
from tests.architecture import sources

# A word on its own, and the words of an array.
LITERAL = re.compile(r"'(?:\{([a-z_, ]+)\}|([a-z_]+))'")

# Of each of these a file may name one: two are a copy of the set. The reasons of `EXCEPT` are by file.
SETS: Mapping[str, frozenset[str]] = {
    "workflow.TERMINAL": workflow.TERMINAL,
    "workflow.FAILED": workflow.FAILED,
    "workflow.AT_WORK": workflow.AT_WORK,
}
EXCEPT: Mapping[tuple[str, str], str] = {
    ("workflow.AT_WORK", "queries/census.sql"): "the clock of `running` is its stage's; `compensating` may be a cancel",
}


def test_no_sql_repeats_what_the_model_says() -> None:
    copies = [
        f"{path.relative_to(sources.ROOT)} repeats {name}: {', '.join(sorted(found))}"
        for path in sources.sql_files()
        for name, words in SETS.items()
        if len(found := words & words_of(path)) > 1 and (name, "/".join(path.parts[-2:])) not in EXCEPT
    ]
    assert not copies


def words_of(path: Path) -> set[str]:
    """The literals of a file that are words, comments left out."""
    return {
        word
        for array, alone in LITERAL.findall(sources.uncommented_sql(path))
        for word in (re.split(r", *", array) if array else [alone])
    }
