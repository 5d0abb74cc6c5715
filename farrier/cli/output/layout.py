"""Lays out rows for a terminal. If the columns do not fit beside each other, some are printed below their row.

No text is cut, and no line is wider than the terminal. If `width` is None, the output is a pipe, in which lines are as
long as their content.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console
from rich.text import Text

_GAP = 2
_INDENT = 4
# If fewer columns than this are left beside the name, the value is put below the name.
_NARROWEST = 16
# rich needs a console to wrap a text, but prints nothing on this console.
_PAPER = Console(file=io.StringIO())


class Table:
    """Rows under headings. A column never becomes narrower than for earlier rows. If the columns do not fit beside each
    other, some are moved below their rows: first the columns whose headings are in `below`, then the columns with the
    fewest values."""

    def __init__(self, headings: Sequence[str], *, below: Sequence[str] = ()) -> None:
        self._headings = headings
        self._first_below = [headings.index(heading) for heading in below]
        self._widths = [Text(heading).cell_len for heading in headings]
        self._headed = False

    def lines(self, rows: Sequence[Sequence[Text]], width: int | None) -> Iterator[Text]:
        """Return the lines of these rows, of which there is at least one. The first call also returns the headings."""
        cells = list(zip(*rows, strict=True))
        self._widths = [
            max(before, *(cell.cell_len for cell in column)) for before, column in zip(self._widths, cells, strict=True)
        ]
        beside = self._beside([sum(1 for cell in column if cell) for column in cells], width)
        below = [place for place in range(len(self._headings)) if place not in beside]
        widths = [self._widths[place] for place in beside]
        if not self._headed:
            self._headed = True
            yield from _row([Text(self._headings[place], style="bold") for place in beside], widths, width)
        for row in rows:
            yield from _row([row[place] for place in beside], widths, width)
            yield from _below([(self._headings[place].lower(), row[place]) for place in below if row[place]], width)

    def _beside(self, filled: Sequence[int], width: int | None) -> list[int]:
        """Return the columns that fit beside each other; always including the first column."""
        left = list(range(len(self._widths)))
        while width is not None and len(left) > 1 and sum(self._widths[i] + _GAP for i in left) - _GAP > width:
            chosen = [place for place in self._first_below if place in left]
            sparse = min(left[1:], key=lambda place: (filled[place], -self._widths[place]))
            left.remove(chosen[0] if chosen else sparse)
        return left


def facts(pairs: Sequence[tuple[str, Text]], width: int | None) -> Iterator[Text]:
    """Return the lines of facts, each with its name beside it."""
    names = max((Text(name).cell_len for name, _ in pairs), default=0) + _GAP
    for name, value in pairs:
        label = Text.assemble((name, "dim"), " " * (names - Text(name).cell_len))
        if width is None:
            yield label + value
        elif width - names < _NARROWEST:
            yield from _wrapped(Text(name, style="dim"), width)
            yield from _indented(value, width)
        else:
            first, *rest = _wrapped(value, width - names)
            yield label + first
            yield from (Text(" " * names) + line for line in rest)


def _row(cells: Sequence[Text], widths: Sequence[int], width: int | None) -> Iterator[Text]:
    line = Text()
    for cell, reserved in zip(cells, widths, strict=True):
        line.append_text(cell)
        line.append(" " * (reserved - cell.cell_len + _GAP))
    line.rstrip()
    yield from [line] if width is None else _wrapped(line, width)


def _below(pairs: Iterable[tuple[str, Text]], width: int | None) -> Iterator[Text]:
    """Return names with their values, as many on each line as fit."""
    line = Text()
    for name, value in pairs:
        pair = Text.assemble((f"{name}: " if name else "", "dim"), value)
        if line and width is not None and _INDENT + line.cell_len + _GAP + pair.cell_len > width:
            yield from _indented(line, width)
            line = Text()
        line = line + " " * _GAP + pair if line else pair
    if line:
        yield from _indented(line, width)


def _indented(text: Text, width: int | None) -> Iterator[Text]:
    by = _INDENT if width is None else min(_INDENT, width // 2)
    for line in [text] if width is None else _wrapped(text, width - by):
        yield Text(" " * by) + line


def _wrapped(text: Text, width: int) -> Sequence[Text]:
    """Break a text between words. A word is broken only if it is wider than a line."""
    if text.cell_len <= width and "\n" not in text.plain:
        return [text]
    lines = text.wrap(_PAPER, max(width, 1), overflow="fold", tab_size=1)
    for line in lines:
        line.rstrip()
    return list(lines) or [Text()]
