"""Adds options to commands by changing their signatures. typer derives the options of a command from the signature of
its function."""

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
    """Return all parameters of a function, from which typer derives options."""
    return tuple(inspect.signature(of, eval_str=True).parameters.values())


def with_options(
    command: Callable[Concatenate[S, T, P], R],
    options: Iterable[inspect.Parameter],
    read: Callable[..., T],
) -> Callable[Concatenate[S, P], R]:
    """Wrap a command, so that it has these options in place of its second parameter. The command receives the result of
    `read` as this parameter. `read` is called with the values of the options as keyword arguments."""
    options = tuple(options)
    first, _, *own = parameters(command)

    @wraps(command)
    def asked(first: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        given: dict[str, Any] = {option.name: kwargs.pop(option.name) for option in options}
        return command(first, read(**given), *args, **kwargs)

    vars(asked)["__signature__"] = inspect.Signature([first, *own, *options])
    return asked


def replace_given(command: Callable[..., R], options: Iterable[inspect.Parameter], text: str) -> Callable[..., R]:
    """Replace the parameter `**given` of a command by these options, and set the help of the command to `text`."""
    own = [parameter for parameter in parameters(command) if parameter.name != "given"]
    vars(command)["__signature__"] = inspect.Signature([*own, *options])
    command.__doc__ = text
    return command
