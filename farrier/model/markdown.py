"""Tables in Markdown, for the documentation and `farrier model`. Pure."""

from __future__ import annotations

from collections.abc import Iterable


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table with these headings."""
    head = tuple(head)
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (head, ("---",) * len(head), *rows))


def rows_of(text: str) -> list[list[str]] | None:
    """Return the headings and rows of a text that `table` returned; None for any other text."""
    if not text.startswith("| "):
        return None
    head, _, *rows = (line.removeprefix("| ").removesuffix(" |").split(" | ") for line in text.splitlines())
    return [head, *rows]
