"""The documentation's blocks of code: what a reader types, and what a program reads.

A block may follow a comment on a line of its own: `<!-- sh: NAME -->` (`sql`, `file`, `said`) gives it a name by which
a test of its page finds it; `<!-- not run: REASON -->` says why no test runs it.
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from tools import generate_docs

ROOT = generate_docs.ROOT

_GENERATED = re.compile(r"<!-- generated.*?<!-- end generated -->", re.DOTALL)
_BLOCK = re.compile(
    r"^(?: *<!-- (?P<marker>[^>]*) -->\n)?(?P<indent> *)```(?P<language>\w*)\n(?P<text>.*?)^(?P=indent)```$",
    re.DOTALL | re.MULTILINE,
)


class Block(msgspec.Struct, frozen=True):
    """One block. `marker` is the comment above it."""

    page: Path
    language: str
    marker: str
    text: str

    @property
    def is_run_elsewhere(self) -> bool:
        """Whether a test of the page runs the block, or a comment says why no test does."""
        return bool(self.marker)

    @property
    def is_typed(self) -> bool:
        """Whether a reader types the block into a shell."""
        return self.language in ("", "sh")


def blocks(page: Path) -> list[Block]:
    """The blocks that people wrote on a page, in their order. Generated ones and diagrams have tests of their own."""
    text = _GENERATED.sub("", page.read_text(encoding="utf-8"))
    found = []
    for match in _BLOCK.finditer(text):
        lines = [line.removeprefix(match["indent"]) for line in match["text"].splitlines(keepends=True)]
        if match["language"] != "mermaid":
            found.append(Block(page, match["language"], match["marker"] or "", "".join(lines)))
    return found


def with_blocks() -> dict[str, list[Block]]:
    """The pages with blocks, by their names in the repository."""
    named = {page.relative_to(ROOT).as_posix(): blocks(page) for page in generate_docs.pages()}
    return {name: found for name, found in named.items() if found}
