"""Suggests a command for an unknown one: a command with a similar name, or the command for a word of other tools. A
command that may erase, release, delete or switch off something is never suggested, because a suggestion is easily
repeated without a second look."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING

from typer._click import exceptions  # typer has no public names for its classes
from typer.core import TyperGroup
from typing_extensions import override

if TYPE_CHECKING:
    from typer import _click

# The commands for words that other tools use.
_WORDS: Mapping[str, tuple[str, ...]] = {
    "create": ("add",),
    "new": ("add",),
    "register": ("add",),
    "ls": ("list",),
    "get": ("show", "list"),
    "describe": ("show",),
    "inspect": ("show",),
    "status": ("show", "why"),
    "explain": ("why",),
    "log": ("history",),
    "logs": ("history",),
    "events": ("history",),
    "edit": ("set", "update"),
    "change": ("set", "update"),
    "modify": ("set", "update"),
    "cordon": ("quarantine",),
    "uncordon": ("release",),
    "hold": ("quarantine", "pause"),
    "stop": ("pause",),
    "start": ("unpause",),
    "continue": ("resume",),
}


class Suggesting(TyperGroup):
    """A group whose suggestions are those of this module."""

    @override
    def resolve_command(
        self, ctx: _click.Context, args: list[str]
    ) -> tuple[str | None, _click.Command | None, list[str]]:
        self.suggest_commands = False  # typer's own suggestions, which may be destructive
        try:
            return super().resolve_command(ctx, args)
        except exceptions.UsageError as error:
            near = suggested(args[0], self.commands) if args else []
            if near and args[0] not in self.commands:
                error.message = f"{error.message.rstrip('.')}. Did you mean {', '.join(map(repr, near))}?"
            raise


def suggested(word: str, commands: Iterable[str]) -> list[str]:
    """Return the commands that a user may have meant by the word, the best first."""
    known = set(commands)
    found = (name for near in get_close_matches(word, {*known, *_WORDS}) for name in _WORDS.get(near, (near,)))
    return [name for name in dict.fromkeys(found) if name in known and not is_destructive(name)]


def is_destructive(command: str) -> bool:
    """Return whether a command of any group may erase, release, delete or switch off something."""
    from farrier.model.intents import verbs  # this import takes long, and only a mistake needs it

    return command in _ENDS or verbs.is_destructive(command)


# Commands of any group that delete something.
_ENDS = frozenset({"delete", "remove", "prune"})
