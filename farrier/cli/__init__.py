"""The command `farrier`: takes words and files, and prints data and errors, with an exit code.

Each command has a module, which `_MODULES` names. A module is loaded when its command is called, so that `farrier
--help` is fast. Each expected error is reported in one line on standard error, and the process exits with a code of
`farrier.errors.ExitCode`. Only the requested data is printed to standard output.
"""

from __future__ import annotations

from copy import copy
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer._click import exceptions  # typer has no public names for its classes
from typer.core import TyperGroup
from typing_extensions import override

import farrier
from farrier.cli.options.suggestions import Suggesting
from farrier.cli.output import standard
from farrier.errors import ExitCode, FarrierError, RefusedByModel

if TYPE_CHECKING:
    from typer import _click

COMMANDS = {
    "run": "Run the controller until SIGTERM or Ctrl-C. A second signal stops the controller at once, without a drain.",
    "serve": "Serve the pages and the HTTP API until SIGTERM or Ctrl-C; with --agents, serve the API of the agents.",
    "health": "Check whether a process of farrier on this machine is alive. Exit code 0: alive; 1: not alive.",
    "demo": "Run a simulated fleet: real daemon and PostgreSQL, simulated BMCs, MAAS region, agents and clients.",
    "systemd": "Install the units of the service.",
    "db": "Manage the database: schema, roles, DSN of the embedded server.",
    "node": "Register, list and inspect nodes, and act on them.",
    "intent": "Submit an intent for a node, and list, show and await intents.",
    "import": "Register nodes from a file or a MAAS region, and change registered nodes.",
    "kind": "List, install and remove kinds of resources.",
    "segment": "Create, list, inspect and delete network segments.",
    "partition": "Create, list, inspect and delete InfiniBand partitions.",
    "resource": "List and inspect resources of any kind, and submit intents for them.",
    "monitor": "List the monitors, which state conditions of nodes, and their reports that were not taken.",
    "task": "List the tasks of agents and workers.",
    "enqueue": "Enqueue a resource, so that its handler runs as soon as possible.",
    "controllers": "List the controllers with their shards and lag, the shards without a controller, and the doors.",
    "history": "List, export and prune the history of the fleet.",
    "site": "Check site files, show the settings, MAAS regions and brakes of sites, and lift brakes.",
    "sla": "List the limits of all states, and the resources above a limit.",
    "alerts": "Print alert rules for Prometheus, generated from the limits and periods of the settings.",
    "dashboard": "Print one dashboard for Grafana, or write all of them to a directory.",
    "token": "Create and list tokens of the HTTP API.",
    "context": "Save named connections to databases and APIs, and select the current connection.",
    "config": "Print every setting with its default and description.",
}
"""Every command, with the first line of its help."""
_MODULES = {
    "run": "service.process",
    "serve": "service.process",
    "health": "service.health",
    "demo": "service.demo",
    "systemd": "service.systemd",
    "controllers": "service.controllers",
    "db": "database.commands",
    "node": "node.commands",
    "intent": "intent.commands",
    "import": "imports.commands",
    "kind": "resource.kind",
    "segment": "resource.built_in",
    "partition": "resource.built_in",
    "resource": "resource.commands",
    "task": "fleet.task",
    "enqueue": "resource.commands",
    "history": "history.commands",
    "site": "site.commands",
    "sla": "fleet.sla",
    "alerts": "fleet.telemetry",
    "monitor": "fleet.monitor",
    "dashboard": "fleet.telemetry",
    "token": "settings.token",
    "context": "settings.context",
    "config": "settings.config",
}
"""The module of each command, below this package."""
_FUNCTIONS = {"import": "importing"}  # a function cannot have the name of a keyword


def group(name: str, *, cls: type[TyperGroup] | None = None) -> typer.Typer:
    """Return a group without commands. Its help is its text in `COMMANDS`. Its callback does nothing; but without a
    callback, typer would turn a group with a single command into this command."""
    cls = cls or Suggesting
    return typer.Typer(no_args_is_help=True, add_completion=False, cls=cls, help=COMMANDS[name], callback=lambda: None)


class _Commands(Suggesting):
    """Loads a command only when it is needed, and ends the process with one line and a code on an expected error."""

    @override
    def main(self, *args: Any, **given: Any) -> Any:
        if not given.get("standalone_mode", True):
            return super().main(*args, **given)
        try:
            code = super().main(*args, **(given | {"standalone_mode": False}))
        except exceptions.NoArgsIsHelpError as wanted:
            wanted.show()
            raise SystemExit(ExitCode.USAGE) from None
        except exceptions.ClickException as wrong:
            typer.echo(f"farrier: {_line(wrong)}", err=True)
            raise SystemExit(wrong.exit_code) from None
        except typer.Abort:
            typer.echo("farrier: aborted; nothing was changed", err=True)
            raise SystemExit(ExitCode.FAILED) from None
        raise SystemExit(code if isinstance(code, int) else ExitCode.OK)

    @override
    def resolve_command(
        self, ctx: _click.Context, args: list[str]
    ) -> tuple[str | None, _click.Command | None, list[str]]:
        if args and args[0] in COMMANDS:
            self.add_command(_built(*args[:2]), args[0])
        return super().resolve_command(ctx, args)

    @override
    def invoke(self, ctx: _click.Context) -> object:
        try:
            return super().invoke(ctx)
        except RefusedByModel as refusal:
            typer.echo(f"farrier: {refusal.text}", err=True)
            if refusal.hint:
                typer.echo(f"hint: {refusal.hint}", err=True)
            raise typer.Exit(refusal.exit_code) from refusal
        except FarrierError as error:
            typer.echo(f"farrier: {error}", err=True)
            raise typer.Exit(error.exit_code) from error


def _line(wrong: exceptions.ClickException) -> str:
    """Return what is wrong with the command line, and the option that shows the help."""
    text = " ".join(wrong.format_message().split()).replace("Value error, ", "", 1)
    text = text.removeprefix("Invalid value: ").removeprefix("Invalid value for ").removesuffix(".")
    # typer's text about a number omits the value, but the error of pydantic contains the value.
    for fault in getattr(wrong.__cause__, "errors", list)()[:1]:
        value = repr(fault["input"])
        text = text if value in text else f"{text}, got {value}"
    context = getattr(wrong, "ctx", None)
    return text if context is None else f"{text} (see {context.command_path} --help)"


@cache
def _built(name: str, called: str = "") -> _click.Command:
    """Return a command; of a group, only the called subcommand, because building all of them can take longer than
    running one. A group without this subcommand has all of them, for its help and its suggestions."""
    command = load(name)
    only = [each for each in command.registered_commands if each.name == called]
    if only and len(command.registered_commands) > 1:
        command = copy(command)
        command.registered_commands = only
        return typer.main.get_group(command)
    return typer.main.get_command(command)


def load(name: str) -> typer.Typer:
    """Load a command from its module. The module defines either a group of commands or one function."""
    command = getattr(import_module(f"farrier.cli.{_MODULES[name]}"), _FUNCTIONS.get(name, name))
    if isinstance(command, typer.Typer):
        return command
    alone = typer.Typer(add_completion=False, pretty_exceptions_show_locals=False)
    alone.command(name)(command)
    return alone


app = typer.Typer(
    name="farrier",
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},  # all commands inherit the names
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"farrier {farrier.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """A single-writer state controller for bare-metal GPU nodes, on PostgreSQL."""


def _not_loaded() -> None:
    """A placeholder for a command in the list of commands. `resolve_command` replaces it with the command."""


for _name, _help in COMMANDS.items():
    app.command(_name, help=_help)(_not_loaded)


def main() -> None:
    """Run the command line, and end the process with one of `farrier.errors.ExitCode`."""
    with standard.watched():
        app()
