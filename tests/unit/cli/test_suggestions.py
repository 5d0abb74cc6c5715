"""A near miss never suggests a command that erases, deletes or switches off something."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import typer

from farrier.cli import COMMANDS, load
from farrier.cli.options.suggestions import is_destructive, suggested

GROUPS = {name: sorted(getattr(typer.main.get_command(load(name)), "commands", {})) for name in COMMANDS}
ENDS = {"delete", "remove", "decommission", "reimage", "clean-storage", "power-off", "power-reset", "prune"}


def near(word: str) -> Iterator[str]:
    """The word with a letter missing, doubled or swapped, and the word itself."""
    yield word
    for place in range(len(word)):
        yield word[:place] + word[place + 1 :]
        yield word[:place] + word[place] + word[place:]
        yield word[:place] + word[place + 1 : place + 2] + word[place] + word[place + 2 :]


@pytest.mark.parametrize("group", [name for name, commands in GROUPS.items() if len(commands) > 1])
def test_no_misspelt_command_of_a_group_suggests_a_destructive_command(group: str) -> None:
    words = {typo for command in GROUPS[group] for typo in near(command)} - {*GROUPS[group]}
    assert words
    assert not ENDS & {name for word in words for name in suggested(word, GROUPS[group])}


def test_a_misspelt_command_that_changes_no_machine_is_suggested() -> None:
    assert [suggested(word, GROUPS["node"])[0] for word in ("quarantin", "retir", "shw")] == [
        "quarantine",
        "retire",
        "show",
    ]


def test_the_destructive_commands_are_those_that_erase_or_end_something() -> None:
    commands = {command for commands in GROUPS.values() for command in commands}
    assert {command for command in commands if is_destructive(command)} >= ENDS
    assert not {command for command in ("list", "drain", "retire", "set-bmc", "quarantine") if is_destructive(command)}
