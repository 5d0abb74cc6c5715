"""Defines options for the details of a node, and options that select nodes.

`described` and `narrowed` add these options to those of a command, and pass their values as the command's second
parameter, after the session.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from itertools import chain
from typing import Annotated, Any, Concatenate, ParamSpec, TypeAlias, TypeVar

import typer

from farrier.cli.options import arguments, completed_names, completion, signatures
from farrier.cli.settings.connection import CommandSession
from farrier.model.node.details import DEFAULTS, DETAILS, LISTED
from farrier.model.node.layers import Management, NodeStatus
from farrier.model.views.nodes import NodeFilter

P = ParamSpec("P")
T = TypeVar("T")
Taking: TypeAlias = Callable[Concatenate[CommandSession, T, P], Awaitable[None]]
Taken: TypeAlias = Callable[Concatenate[CommandSession, P], Awaitable[None]]

_AGAIN = "Repeatable"
_PANEL = "Which nodes"


def described(command: Taking[Mapping[str, Any], P]) -> Taken[P]:
    """Wrap a command, so that it receives the details of a registration by name."""
    return signatures.with_options(
        command,
        map(_description, DETAILS),
        lambda **given: {name: _value(name, value) for name, value in _present(given).items()},
    )


def narrowed(command: Taking[NodeFilter, P]) -> Taken[P]:
    """Wrap a command, so that it receives a filter of nodes by state, label and detail, but not by name."""
    options = [*map(_filter, LISTED), *signatures.parameters(_wanted)[:-1]]
    return signatures.with_options(command, options, lambda **given: _wanted(**_present(given)))


def _present(given: Mapping[str, Any]) -> dict[str, Any]:
    # typer passes an empty list for a repeatable option that the user omitted.
    return {name: value for name, value in given.items() if value is not None and value != []}


def _states(what: str, states: type[StrEnum], help_: str) -> Any:
    return typer.Option(
        metavar="STATE",
        help=help_,
        parser=arguments.among(what, states),
        autocompletion=completion.several_of(states),
        rich_help_panel=_PANEL,
    )


def _wanted(
    *,
    label: Annotated[
        list[Any] | None,
        typer.Option(
            "--label",
            "-l",
            metavar="TEST",
            help="Only nodes whose labels pass these tests: KEY, !KEY, KEY=VALUE, KEY!=VALUE, separated by commas.",
            parser=arguments.label_tests,
            rich_help_panel=_PANEL,
        ),
    ] = None,
    status: Annotated[
        list[Any] | None, _states("status", NodeStatus, "Only these statuses, separated by commas.")
    ] = None,
    management: Annotated[
        list[Any] | None, _states("management state", Management, "Only these management states, separated by commas.")
    ] = None,
    failed: Annotated[
        bool,
        typer.Option(
            "--failed",
            help="Only nodes whose workflow failed, whose BMC cannot be read, or which a brake holds.",
            rich_help_panel=_PANEL,
        ),
    ] = False,
    **details: list[str],
) -> NodeFilter:
    return NodeFilter(
        labels=tuple(chain.from_iterable(label or ())),
        statuses=tuple(chain.from_iterable(status or ())),
        managements=tuple(chain.from_iterable(management or ())),
        details={name: tuple(given) for name, given in details.items()},
        failed=failed,
    )


def _description(name: str) -> inspect.Parameter:
    """Return the option for a detail. For a list, the option has the singular name and is repeated for each element."""
    option = f"--{name.replace('_', '-')}"
    help_ = f"{DETAILS[name].help[0].upper()}{DETAILS[name].help[1:]}"
    usual = DEFAULTS[name]
    if isinstance(usual, bool):
        return _option(name, bool, f"{option}/--no-{option[2:]}", f"{help_}. Default: {'yes' if usual else 'no'}.")
    if usual is None:
        return _option(name, str, option, f"{help_}.")
    metavar = "KEY=VALUE" if isinstance(usual, Mapping) else None
    return _option(name, list[str], option.removesuffix("s"), f"{help_}. {_AGAIN}.", metavar)


def _filter(name: str) -> inspect.Parameter:
    """Return the option that filters by the values of a detail."""
    completed = completed_names.sites if name == "site" else None
    option = typer.Option(help=f"Only this {name}. {_AGAIN}.", autocompletion=completed, rich_help_panel=_PANEL)
    return _parameter(name, list[str], option)


def _option(name: str, type_: Any, option: str, help_: str, metavar: str | None = None) -> inspect.Parameter:
    return _parameter(name, type_, typer.Option(option, help=help_, metavar=metavar, show_default=False))


def _parameter(name: str, type_: Any, option: Any) -> inspect.Parameter:
    annotation = Annotated[type_ | None, option]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _value(name: str, given: Any) -> Any:
    if isinstance(DEFAULTS[name], Mapping):
        return arguments.pairs(given)
    return tuple(given) if isinstance(DEFAULTS[name], tuple) else given
