"""Adds options to commands, whose options typer derives from their signatures."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
# What the command works on: a session, or settings.
S = TypeVar("S")
T = TypeVar("T")


def parameters(of: Callable[..., Any]) -> tuple[inspect.Parameter, ...]:
    """Return the parameters of a function, which are options."""
    return tuple(inspect.signature(of, eval_str=True).parameters.values())


def instead(
    command: Callable[Concatenate[S, T, P], R],
    options: Iterable[inspect.Parameter],
    read: Callable[..., T],
) -> Callable[Concatenate[S, P], R]:
    """Wrap a command, so that it has these options in place of its second parameter. The parameter receives the result
    of `read`, which is called with the values of the options by name."""
    options = tuple(options)
    first, _, *own = parameters(command)

    @wraps(command)
    def asked(first: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        given: dict[str, Any] = {option.name: kwargs.pop(option.name) for option in options}
        return command(first, read(**given), *args, **kwargs)

    vars(asked)["__signature__"] = inspect.Signature([first, *own, *options])
    return asked


def as_given(command: Callable[..., R], options: Iterable[inspect.Parameter], text: str) -> Callable[..., R]:
    """Give a command these options in place of its `**given`, and this help."""
    own = [parameter for parameter in parameters(command) if parameter.name != "given"]
    vars(command)["__signature__"] = inspect.Signature([*own, *options])
    command.__doc__ = text
    return command
