"""Command-line options that are derived from the declared details of a node.

`described` and `narrowed` add these options to those of a command, and pass their values as the command's second
parameter, after the session.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from functools import wraps
from typing import Annotated, Any, Concatenate, ParamSpec, TypeAlias, TypeVar

import typer

from farrier.cli import arguments
from farrier.cli.connection import Session
from farrier.model.details import DEFAULTS, DETAILS, LISTED

P = ParamSpec("P")
T = TypeVar("T")
Taking: TypeAlias = Callable[Concatenate[Session, T, P], Awaitable[None]]
Taken: TypeAlias = Callable[Concatenate[Session, P], Awaitable[None]]

_AGAIN = "Repeatable"


def described(command: Taking[Mapping[str, Any], P]) -> Taken[P]:
    """A command that receives the given details of a registration, by name."""
    return _with(command, [_description(name) for name in DETAILS], _value)


def narrowed(command: Taking[Mapping[str, tuple[str, ...]], P]) -> Taken[P]:
    """A command that receives the values by which to filter each listed detail, by name."""
    options = [_option(name, list[str], f"--{name}", f"Only this {name}. {_AGAIN}.") for name in LISTED]
    return _with(command, options, lambda _, given: tuple(given))


def _with(
    command: Taking[Mapping[str, T], P], options: list[inspect.Parameter], read: Callable[[str, Any], T]
) -> Taken[P]:
    session, _, *own = inspect.signature(command, eval_str=True).parameters.values()

    @wraps(command)
    async def asked(session: Session, /, *args: P.args, **kwargs: P.kwargs) -> None:
        given = {option.name: kwargs.pop(option.name) for option in options}
        # typer passes an empty list for a repeatable option that the user omitted.
        values = {name: read(name, value) for name, value in given.items() if value is not None and value != []}
        await command(session, values, *args, **kwargs)

    # typer derives the options from this signature.
    vars(asked)["__signature__"] = inspect.Signature([session, *own, *options])
    return asked


def _description(name: str) -> inspect.Parameter:
    """The option for a detail. For a list, the option has the singular name and is repeated for each element."""
    option = f"--{name.replace('_', '-')}"
    help_ = f"{DETAILS[name].help[0].upper()}{DETAILS[name].help[1:]}"
    usual = DEFAULTS[name]
    if isinstance(usual, bool):
        return _option(name, bool, f"{option}/--no-{option[2:]}", f"{help_}. Default: {'yes' if usual else 'no'}.")
    if usual is None:
        return _option(name, str, option, f"{help_}.")
    metavar = "KEY=VALUE" if isinstance(usual, Mapping) else None
    return _option(name, list[str], option.removesuffix("s"), f"{help_}. {_AGAIN}.", metavar)


def _option(name: str, type_: Any, option: str, help_: str, metavar: str | None = None) -> inspect.Parameter:
    annotation = Annotated[type_ | None, typer.Option(option, help=help_, metavar=metavar, show_default=False)]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _value(name: str, given: Any) -> Any:
    if isinstance(DEFAULTS[name], Mapping):
        return arguments.pairs(given)
    return tuple(given) if isinstance(DEFAULTS[name], tuple) else given
