"""The pages quote errors, hints and reasons word for word, so that a reader who searches for one finds it.

A quotation is a span in backticks that reads as a sentence, or that is in the first column of a table of texts. It may
quote a part of a text. `…` matches any words, and an example matches a placeholder in the code.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from math import inf

from farrier.model.kinds import built_in
from tests.architecture import sources
from tools import generate_docs

NOT_PROSE = re.compile(r"<!-- generated\b.*?<!-- end generated -->|^ *```.*?^ *```", re.DOTALL | re.MULTILINE)
ROW_OR_PARAGRAPH = re.compile(r"^\|.*|(?:^[^|\n].*\n)+", re.MULTILINE)
TABLE_OF_TEXTS = re.compile(r"\| (?:error|text|the node waits for, or shows) \|")
# Words that occur in sentences, but not in commands, statements, settings or states.
SENTENCE = re.compile(r"(?:^|(?<=\s))(?:a|an|and|are|be|did|does|has|in|is|no|not|of|the|to|was)(?=[\s;,:]|$)")
CODE = re.compile(r"\w\(|[={}\[]|^(?:farrier|psql|-) ")

PLACEHOLDER = re.compile(r"%(?:\d+\$)?[sILrd]?|\{\w*\}")
LITERAL = r"'(?:[^']|'')*'"
COMMENT_OR_LITERAL = re.compile(rf"--[^\n]*|/\*.*?\*/|{LITERAL}", re.DOTALL)
ADJACENT = re.compile(rf"{LITERAL}(?:\s+{LITERAL})*")

# Words of kinds and states that may fill a placeholder. No other word of lower-case letters may.
VALUES = {
    word for spec in built_in.BUILT_IN for name in (spec.name, *map(str, spec.states)) for word in name.split("_")
}

Words = tuple[str, ...]


def words(text: str) -> Words:
    """The words of a text without punctuation; `…` for a word that is left open in part or as a whole."""
    stripped = (word.strip("'\"`.,;:()") for word in text.split())
    return tuple("…" if "…" in word else word for word in stripped if word)


@cache
def printed() -> list[Words]:
    """Each text that the program may print, with `…` for its placeholders."""
    texts = [text for module in sources.modules(sources.FARRIER) for text in texts_of_python(module.tree)]
    texts += [text for path in sources.sql_files() for text in texts_of_sql(path.read_text(encoding="utf-8"))]
    return sorted({words(PLACEHOLDER.sub("…", text)) for text in texts if " " in text})


def texts_of_python(tree: ast.Module) -> Iterator[str]:
    """The strings of a module, except docstrings."""
    for parent in ast.walk(tree):
        if isinstance(parent, ast.Expr):
            continue
        for node in ast.iter_child_nodes(parent):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value
            elif isinstance(node, ast.JoinedStr):
                yield "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)


def texts_of_sql(text: str) -> Iterator[str]:
    """The literals of an SQL file; adjacent literals are one."""
    code = COMMENT_OR_LITERAL.sub(lambda found: found[0] if found[0].startswith("'") else "", text)
    code = re.sub(r"(\|\|\s*')", r"\1…", re.sub(r"('\s*\|\|)", r"…\1", code))
    for literals in ADJACENT.findall(code):
        yield re.sub(r"(?<!')'(?:\s+')?(?!')", "", literals).replace("''", "'")


@cache
def shared(quoted: Words, text: Words) -> float:
    """The number of words that a quotation shares with the beginning of a text; minus infinity: it does not match."""
    if not quoted:
        return 0
    if not text:
        return 0 if set(quoted) == {"…"} else -inf
    ways = [shared(quoted[1:], text[1:]) + 1] if quoted[0] == text[0] != "…" else []
    if "…" in (quoted[0], text[0]):
        ways.append(shared(quoted, text[1:]))
    is_example = quoted[0] in VALUES or not re.fullmatch("[a-z']+", quoted[0])
    if quoted[0] == "…" or (text[0] == "…" and is_example):
        ways.append(shared(quoted[1:], text))
    return max(ways, default=-inf)


def is_printed(quotation: str) -> bool:
    """Whether a text contains the quotation. At least half of the quotation's words have to be words of the text."""
    quoted = words(quotation)
    known = set(quoted) - {"…"}
    likely = [text for text in printed() if 2 * len(known.intersection(text)) >= len(known)]
    return any(2 * shared(quoted, text[at:]) >= len(known) for text in likely for at in range(len(text)))


def quotations(page: str) -> Iterator[str]:
    """The quotations of the program's texts in the part of a page that is written by hand."""
    in_table = False
    for part in ROW_OR_PARAGRAPH.findall(NOT_PROSE.sub("", page)):
        in_table = part.startswith("|") and (in_table or bool(TABLE_OF_TEXTS.match(part)))
        first_cell = len(part.split(" | ")[0])
        for found in re.finditer(r"`([^`]+)`", part):
            span = " ".join(found[1].split())
            is_text = (in_table and found.start() < first_cell) or SENTENCE.search(span)
            if " " in span and is_text and not CODE.search(span):
                yield span


def test_every_quotation_on_a_page_is_a_text_that_farrier_prints() -> None:
    pages = [*generate_docs.pages(), sources.ROOT / "AGENTS.md"]
    quoted = [(page.name, text) for page in pages for text in quotations(page.read_text(encoding="utf-8"))]
    assert len(quoted) > 10
    assert not [f"{page}: {text}" for page, text in quoted if not is_printed(text)]


def test_a_quotation_that_farrier_does_not_print_is_found() -> None:
    page = """Then it says `no node is called 'gpu-1'`.

| error | do |
|---|---|
| `FR404` `no node is named 'gpu-1' …` | run `farrier node list` |
| `tenant-a is provisioning; addresses can be allocated later` | wait until the state is `ready` |
"""
    stale = ["no node is called 'gpu-1'", "tenant-a is provisioning; addresses can be allocated later"]
    assert [text for text in quotations(page) if not is_printed(text)] == stale
