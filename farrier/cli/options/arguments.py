"""Parses arguments: KEY=VALUE pairs, durations, times. An invalid argument is a usage error."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta

import typer

from farrier.config.reading import nearest
from farrier.model import duration
from farrier.model.intents import param_values, selection
from farrier.model.intents.selection import LabelTest
from farrier.model.views import history


@contextmanager
def usage_errors(option: str | None = None) -> Iterator[None]:
    """Report a ValueError of the block as a usage error, which names the option."""
    try:
        yield
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


def pairs(given: Sequence[str]) -> dict[str, str]:
    """Convert KEY=VALUE texts to a mapping. Each key may occur once."""
    found: dict[str, str] = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise typer.BadParameter(f"expected KEY=VALUE, got {text!r}")
        if key in found:
            raise typer.BadParameter(f"{key} is given twice")
        found[key] = value
    return found


def names(given: Sequence[str] | None) -> tuple[str, ...]:
    """Return the names, IDs and globs of a selection. An empty one, as of an unset variable, is a usage error."""
    for name in given or ():
        if not name.strip():
            raise typer.BadParameter(f"expected a name, an ID or a glob, got {name!r}")
    return tuple(given or ())


def known(text: str, what: str, names: Iterable[str]) -> None:
    """Raise a usage error for a text that is not one of these names."""
    names = tuple(map(str, names))
    if text not in names:
        raise typer.BadParameter(f"no {what} is named {text!r}; {nearest(text, names)}")


def among(what: str, names: Iterable[str]) -> Callable[[str], tuple[str, ...]]:
    """Return a parser for a list of known values, separated by commas."""

    def parsed(text: str) -> tuple[str, ...]:
        values = tuple(text.split(","))
        for value in values:
            known(value, what, names)
        return values

    return parsed


def label_tests(text: str) -> tuple[LabelTest, ...]:
    """Convert filters of labels."""
    with usage_errors():
        return selection.label_tests([text])


def whole(text: str) -> int:
    """Convert a whole number. The prefix 0x means hexadecimal, as for the keys of partitions."""
    if not param_values.WHOLE.fullmatch(text):
        raise typer.BadParameter(f"expected a whole number, 0x… for hexadecimal; got {text!r}")
    return param_values.number(text)


def patience(
    option: str, text: str, *, least: timedelta = timedelta(0), most: timedelta = duration.LONGEST
) -> timedelta:
    """Convert the duration that an option has. `least` and `most` are inclusive."""
    with usage_errors(option):
        found = duration.parse(text)
    if not least <= found <= most:
        bound = f"at least {duration.human(least)}" if found < least else f"at most {duration.human(most)}"
        raise typer.BadParameter(f"expected a duration of {bound}, got {text!r}", param_hint=option)
    return found


def age_or_moment(option: str, text: str) -> timedelta | datetime:
    """Convert the age or time that an option has. A time without a zone is UTC."""
    with usage_errors(option):
        return history.parse_bound(text)
