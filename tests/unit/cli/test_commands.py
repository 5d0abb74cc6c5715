"""Every command in the list exists, and prints its help without a database."""

from __future__ import annotations

import inspect

import msgspec
import pytest
import typer
from typer.testing import CliRunner, Result

from farrier import cli, config
from farrier.model.intents.actions import Action
from farrier.model.kinds import diagram as kind_diagram
from farrier.model.kinds.built_in import BUILT_IN
from farrier.model.kinds.spec import KindSpec
from farrier.model.node import limits
from farrier.model.node.edges import Layer
from farrier.model.node.status import NodeStatus
from farrier.model.views import diagram
from tests.support import crates


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


def test_the_model_is_printed_in_every_format() -> None:
    assert run("model", "--format", "md").stdout == diagram.markdown()
    assert run("model", "--format", "md", "--kind", "node").stdout == diagram.markdown()
    assert msgspec.json.decode(run("model", "--format", "json").stdout) == diagram.as_json()
    assert run("model", "--format", "mermaid", "--layer", "status").stdout == diagram.mermaid(Layer.STATUS)
    everything = run("model", "--format", "mermaid").stdout
    assert all(diagram.mermaid(layer) in everything for layer in Layer)


def test_the_model_for_people_has_each_state_and_action_and_no_diagram() -> None:
    shown = run("model").stdout
    assert {*map(str, NodeStatus), *map(str, Action)} <= set(shown.split())
    assert "```" not in shown and "| " not in shown


@pytest.mark.parametrize("spec", BUILT_IN, ids=lambda spec: spec.name)
def test_another_kind_s_model_is_printed_in_every_format(spec: KindSpec) -> None:
    assert run("model", "--kind", spec.name, "--format", "md").stdout == kind_diagram.markdown(spec)
    assert run("model", "--kind", spec.name, "--format", "mermaid").stdout == kind_diagram.mermaid(spec)
    printed = msgspec.json.decode(run("model", "--kind", spec.name, "--format", "json").stdout)
    assert set(printed["states"]) == set(spec.states)
    assert {(edge["source"], edge["target"]) for edge in printed["edges"]} == spec.pairs
    assert {action: tuple(each["states"]) for action, each in printed["actions"].items()} == {
        action: spec.states_accepting(action) for action in spec.requests
    }


def test_the_model_of_a_kind_of_another_package_is_printed_by_its_import_path() -> None:
    place = ("--kind", "tests.support.crates:SPEC")
    assert run("model", *place, "--format", "md").stdout == kind_diagram.markdown(crates.SPEC)
    refused = run("model", "--kind", "crate")
    assert refused.exit_code == 2
    assert "network_segment" in refused.stderr.replace("\n", " ")
    assert run("model", "--kind", "nowhere:SPEC").exit_code == 2


def test_the_option_layer_is_refused_without_the_format_mermaid() -> None:
    refused = run("model", "--layer", "status")
    assert refused.exit_code == 2
    assert "--format mermaid" in refused.stderr


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
