"""The page of commands has each command with all of its arguments and options."""

from __future__ import annotations

import re

from tools import command_line, command_reference


def test_each_command_has_its_usage_and_every_argument_and_option() -> None:
    page = command_reference.page()
    sections = re.split(r"^(?=##+ )", page, flags=re.MULTILINE)
    commands = list(command_line.commands())
    assert len(commands) > 80
    for command in commands:
        (section,) = (each for each in sections if f"\n`{command.name} {command.usage}`\n" in each)
        heading = section.partition("\n")[0].lstrip("# ")
        assert heading == command.name
        for parameter in command.parameters:
            shown = "| `" + parameter.signature.replace("|", r"\|") + "` |"
            where = section if parameter.panel != "Which database" else page
            assert shown in where or parameter.signature == "--help", (command.name, parameter)


def test_the_options_that_name_the_database_are_not_repeated_for_each_command() -> None:
    listing = command_reference.page().partition("### farrier node list\n")[2].partition("\n### ")[0]
    assert "[database options](#which-database)" in listing and "--dsn" not in listing
    assert "`-o, --output FORM`" in listing and "`-w, --watch`" in listing
