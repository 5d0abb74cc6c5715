"""The documentation's blocks of code: what a reader types, and what a program reads.

A block may follow a comment on a line of its own: `<!-- sh: NAME -->` (`sql`, `file`, `said`) gives it a name by which
a test of its page finds it; `<!-- not run: REASON -->` says why no test runs it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from tools import generate_docs

ROOT = generate_docs.ROOT

_GENERATED = re.compile(r"<!-- generated.*?<!-- end generated -->", re.DOTALL)
_BLOCK = re.compile(
    r"^(?:<!-- (?P<marker>[^>]*) -->\n)?(?P<indent> *)```(?P<language>\w*)\n(?P<text>.*?)^(?P=indent)```$",
    re.DOTALL | re.MULTILINE,
)


class Block(msgspec.Struct, frozen=True):
    """One block. `marker` is the comment above it."""

    page: Path
    language: str
    marker: str
    text: str

    @property
    def is_typed(self) -> bool:
        """A reader types it into a shell."""
        return self.language in ("", "sh")

    def commands(self) -> Iterator[str]:
        """The commands of a shell, which may go on over lines in quotes or after a backslash."""
        command = ""
        for line in self.text.splitlines(keepends=True):
            command += line
            if command.count('"') % 2 == 0 and not line.endswith("\\\n") and "<<" not in command:
                if command.strip() and not command.startswith("#"):
                    yield command.strip()
                command = ""
        if command.strip():
            yield command.strip()


def blocks(page: Path) -> list[Block]:
    """The blocks that people wrote on a page, in their order. Generated ones and diagrams have tests of their own."""
    text = _GENERATED.sub("", page.read_text(encoding="utf-8"))
    found = []
    for match in _BLOCK.finditer(text):
        lines = [line.removeprefix(match["indent"]) for line in match["text"].splitlines(keepends=True)]
        if match["language"] != "mermaid":
            found.append(Block(page, match["language"], match["marker"] or "", "".join(lines)))
    return found
