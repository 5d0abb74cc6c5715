"""Options for the details of a node, and for the selection of nodes.

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
from farrier.model.management import Management
from farrier.model.status import NodeStatus
from farrier.model.views import Wanted

P = ParamSpec("P")
T = TypeVar("T")
Taking: TypeAlias = Callable[Concatenate[Session, T, P], Awaitable[None]]
Taken: TypeAlias = Callable[Concatenate[Session, P], Awaitable[None]]

_AGAIN = "Repeatable"
_PANEL = "Which nodes"


def described(command: Taking[Mapping[str, Any], P]) -> Taken[P]:
    """A command that receives the given details of a registration, by name."""
    options = [_description(name) for name in DETAILS]
    return _with(command, options, lambda given: {name: _value(name, value) for name, value in given.items()})


def narrowed(command: Taking[Wanted, P]) -> Taken[P]:
    """A command that receives a filter of nodes, without names."""
    listed = [_option(name, list[str], f"--{name}", f"Only this {name}. {_AGAIN}.", panel=_PANEL) for name in LISTED]
    others = inspect.signature(_wanted, eval_str=True).parameters.values()
    return _with(command, [*listed, *others][:-1], lambda given: _wanted(**given))


def _with(command: Taking[T, P], options: list[inspect.Parameter], read: Callable[[dict[str, Any]], T]) -> Taken[P]:
    session, _, *own = inspect.signature(command, eval_str=True).parameters.values()

    @wraps(command)
    async def asked(session: Session, /, *args: P.args, **kwargs: P.kwargs) -> None:
        given = {option.name: kwargs.pop(option.name) for option in options}
        # typer passes an empty list for a repeatable option that the user omitted.
        values = {name: value for name, value in given.items() if value is not None and value != []}
        await command(session, read(values), *args, **kwargs)

    # typer derives the options from this signature.
    vars(asked)["__signature__"] = inspect.Signature([session, *own, *options])
    return asked


def _wanted(
    *,
    label: Annotated[
        list[str] | None,
        typer.Option(
            "--label",
            "-l",
            metavar="TEST",
            help="Only nodes that pass these tests: KEY, !KEY, KEY=VALUE, KEY!=VALUE, separated by commas.",
            rich_help_panel=_PANEL,
        ),
    ] = None,
    status: Annotated[
        list[str] | None, typer.Option(help="Only these statuses, separated by commas.", rich_help_panel=_PANEL)
    ] = None,
    management: Annotated[
        list[str] | None, typer.Option(help="Only these management states, as --status.", rich_help_panel=_PANEL)
    ] = None,
    failed: Annotated[
        bool,
        typer.Option(
            "--failed", help="Only nodes whose workflow failed or whose BMC cannot be read.", rich_help_panel=_PANEL
        ),
    ] = False,
    **details: list[str],
) -> Wanted:
    return Wanted(
        labels=arguments.label_tests(label or ()),
        statuses=arguments.among("status", status or (), NodeStatus),
        managements=arguments.among("management", management or (), Management),
        details={name: tuple(given) for name, given in details.items()},
        failed=failed,
    )


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


def _option(
    name: str, type_: Any, option: str, help_: str, metavar: str | None = None, *, panel: str | None = None
) -> inspect.Parameter:
    shown = typer.Option(option, help=help_, metavar=metavar, show_default=False, rich_help_panel=panel)
    annotation = Annotated[type_ | None, shown]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _value(name: str, given: Any) -> Any:
    if isinstance(DEFAULTS[name], Mapping):
        return arguments.pairs(given)
    return tuple(given) if isinstance(DEFAULTS[name], tuple) else given
