"""Every command in the list exists, and prints its help without a database."""

from __future__ import annotations

import inspect

import msgspec
import pytest
import typer
from typer.testing import CliRunner, Result

from farrier import cli, config
from farrier.model.kinds.built_in import BUILT_IN
from farrier.model.node import limits


def run(*words: str) -> Result:
    return CliRunner().invoke(cli.app, list(words), env={"COLUMNS": "200"})


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_a_command_is_listed_with_the_first_line_of_its_own_help(name: str) -> None:
    command = typer.main.get_command(cli.load(name))
    assert inspect.cleandoc(command.help or "").splitlines()[0] == cli.COMMANDS[name]
    assert cli.COMMANDS[name] in " ".join(run(name, "--help").output.split())


@pytest.mark.parametrize(
    "words",
    [
        "node list",
        "node show",
        "node why",
        "node history",
        "intent submit",
        "intent list",
        "intent get",
        "intent wait",
        "task list",
        "enqueue",
        "sla breaches",
        "db migrate",
    ],
)
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
