"""The commands that act on nodes come from the table of actions, with an option for each parameter."""

from __future__ import annotations

import pytest
import typer

from farrier import cli
from farrier.model.intents import actions
from farrier.model.intents.actions import Action


@pytest.mark.parametrize("action", [action for action in Action if action is not Action.SET])
def test_each_action_is_a_command_with_its_parameters_and_no_option_twice(action: Action) -> None:
    command = typer.main.get_group(cli.load("node")).commands[action.replace("_", "-")]
    options = [option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)]
    assert len(set(options)) == len(options)
    assert {f"--{name.replace('_', '-')}" for name in actions.rules(action).fields} <= set(options)
