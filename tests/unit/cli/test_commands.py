"""Every command in the list exists, and prints its help without a database. A near miss never suggests a command that
erases, deletes or switches off something."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import msgspec
import pytest
import typer
from typer.testing import CliRunner, Result

from farrier import cli, config
from farrier.cli.options.suggestions import is_destructive, suggested
from farrier.model.intents import actions
from farrier.model.intents.actions import Action
from farrier.model.kinds.built_in import BUILT_IN
from farrier.model.node import limits

GROUPS = {name: sorted(getattr(typer.main.get_command(cli.load(name)), "commands", {})) for name in cli.COMMANDS}
ENDS = {"delete", "remove", "decommission", "reimage", "clean-storage", "power-off", "power-reset", "prune"}


def run(*words: str) -> Result:
    return CliRunner().invoke(cli.app, list(words), env={"COLUMNS": "200"})


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_a_command_is_listed_with_the_first_line_of_its_own_help(name: str) -> None:
    command = typer.main.get_command(cli.load(name))
    assert inspect.cleandoc(command.help or "").splitlines()[0] == cli.COMMANDS[name]
    assert cli.COMMANDS[name] in " ".join(run(name, "--help").output.split())


@pytest.mark.parametrize("words", ["node list", "node history", "intent submit", "enqueue", "sla list", "db migrate"])
def test_every_command_that_needs_a_database_has_the_options_dsn_embedded_and_config(words: str) -> None:
    said = run(*words.split(), "--help").output
    for option in ("--dsn", "--embedded", "--config"):
        assert option in said


def test_an_argument_may_equal_the_name_of_the_command() -> None:
    refused = run("enqueue", "enqueue")
    assert refused.exit_code == 2
    assert "Missing argument 'ID'" in refused.stderr


def test_the_configuration_is_a_file_with_every_default() -> None:
    assert run("config").stdout == config.as_toml()
    listed = msgspec.json.decode(run("config", "--json").stdout)
    assert [(each["section"], each["key"]) for each in listed] == [(s.section, s.key) for s in config.settings()]


def test_limits_are_listed_by_their_configuration_key() -> None:
    listed = msgspec.json.decode(run("sla", "list", "--json").stdout)
    keys = limits.KEYS | limits.keys_of(BUILT_IN)
    assert {limit["key"] for limit in listed} == keys
    assert len(listed) == len(keys)
    by_key = {limit["key"]: limit for limit in listed}
    assert by_key["status.offline"]["limit"] == 1800
    assert by_key["status.active"] == {
        "section": "sla",
        "key": "status.active",
        "limit": None,
        "changed": False,
        "note": "the target state of a node",
    }
    assert "status.offline" in run("sla", "list").stdout


@pytest.mark.parametrize("action", [action for action in Action if action is not Action.SET])
def test_each_action_is_a_command_with_its_parameters_and_no_option_twice(action: Action) -> None:
    command = typer.main.get_group(cli.load("node")).commands[action.replace("_", "-")]
    options = [option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)]
    assert len(set(options)) == len(options)
    assert {f"--{name.replace('_', '-')}" for name in actions.rules(action).fields} <= set(options)


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
