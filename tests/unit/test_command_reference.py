"""The pages of commands have each command with all of its arguments and options."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache

import pytest

from farrier import cli
from tools import command_line, command_reference
from tools.command_line import Command

COMMON = re.compile(r"\[[\w ]+\]\(README\.md#(?P<anchor>[\w-]+)\)(?: \((?P<part>.*?)\))?(?=[;.])")


@cache
def pages() -> Mapping[str, str]:
    return command_reference.pages()


@cache
def commands() -> Mapping[str, Command]:
    return {command.name: command for command in command_line.commands()}


def section(command: Command) -> str:
    """The part of a page that begins with the heading of a command."""
    page = pages()[f"{command.group}.md"]
    return re.split(rf"^##? {command.name}$", page, flags=re.MULTILINE)[1].partition("\n## ")[0]


def common(name: str) -> str:
    """The part of the index with a group of common options."""
    return pages()["README.md"].partition(f"\n## {name}\n")[2].partition("\n## ")[0]


def missing(command: Command) -> Iterator[str]:
    """The arguments and options of a command that neither its section has, nor a group to which it links."""
    shown = section(command)
    links = {link["anchor"]: link["part"] for link in COMMON.finditer(shown.rpartition("Common options: ")[2])}
    for parameter in command.parameters:
        anchor = parameter.panel.lower().replace(" ", "-")
        row = f"| `{parameter.signature.replace('|', chr(92) + '|')}` |"
        part = links.get(anchor) or parameter.signature
        linked = anchor in links and parameter.signature in part and row in common(parameter.panel)
        if not (linked or row in shown or parameter.signature == "--help"):
            yield parameter.signature


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_each_command_has_its_usage_and_every_argument_and_option(name: str) -> None:
    of_the_group = [each for each in commands().values() if each.group == name]
    assert of_the_group
    for command in of_the_group:
        assert f"\n`{command.name} {command.usage}`\n" in section(command)
        assert not list(missing(command)), command.name


def test_the_index_leads_to_each_page_and_no_other() -> None:
    assert re.findall(r"^\| \[farrier ([\w-]+)\]\(\1\.md\) \|", pages()["README.md"], re.MULTILINE) == list(
        cli.COMMANDS
    )
    assert pages().keys() == {"README.md", *(f"{name}.md" for name in cli.COMMANDS)}


def test_common_options_are_not_repeated_for_each_command() -> None:
    drain = section(commands()["farrier node drain"])
    assert "[how to submit](README.md#how-to-submit)" in drain
    assert not [row for row in ("| `--dsn", "| `--dry-run`", "| `--json`", "| `--rack`") if row in drain]


def test_a_command_names_the_options_that_it_has_of_a_group() -> None:
    assert "[output](README.md#output) (`--json`);" in section(commands()["farrier node show"])


def test_every_argument_and_option_has_a_meaning() -> None:
    silent = [
        f"{command.name} {parameter.signature}"
        for command in commands().values()
        for parameter in command.parameters
        if not parameter.meaning.removesuffix("[required]").strip()
    ]
    assert not silent
