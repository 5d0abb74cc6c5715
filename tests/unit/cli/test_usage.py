"""A wrong command line ends with one line that names what is wrong, before any database is looked for."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from farrier import cli

MISTAKES = {
    "nodes": "No such command 'nodes'. Did you mean 'node'",
    "node lst": "No such command 'lst'. Did you mean 'list'",
    "node list --nonsense": "No such option: --nonsense",
    "node show": "Missing argument 'NODE'",
    "node list --status activ": "no status is named 'activ'; did you mean 'active'?",
    "node list --status active,,offline": "no status is named ''",
    "node list --management manageble": "did you mean 'manageable'?",
    "node list -l !a=b": "expected KEY, !KEY, KEY=VALUE or KEY!=VALUE, got '!a=b'",
    "node list -o yaml": "expected wide, name, json or jsonpath=EXPR, got 'yaml'",
    "node list -o jsonpath=$[": "'$[' is no JSONPath such as $[*].name",
    "history list --limit 0": "'--limit'",
    "history list --limit many": "'--limit'",
    "demo --nodes 0": "'--nodes'",
    "model --layer statsu": "'statsu'",
}


@pytest.mark.parametrize("words", MISTAKES)
def test_a_wrong_command_line_is_one_line_that_names_the_value_and_the_way_out(words: str) -> None:
    ended = CliRunner().invoke(cli.app, words.split())
    assert ended.exit_code == 2
    assert ended.stdout == ""
    (line,) = ended.stderr.splitlines()
    assert line.startswith("farrier: ") and line.endswith("--help)")
    assert MISTAKES[words] in line


def test_a_group_without_a_command_shows_its_help() -> None:
    ended = CliRunner().invoke(cli.app, ["node"])
    assert ended.exit_code == 2
    assert "Usage:" in ended.output
