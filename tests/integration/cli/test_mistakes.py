"""A refusal by the database is printed in one line, with the alternatives and the exit code of its class."""

from __future__ import annotations

import shlex

import pytest

from farrier.errors import ExitCode
from tests.integration.cli.conftest import Prompt

MISTAKES = {
    "enqueue nodes x": (ExitCode.USAGE, "unknown kind 'nodes'", ", node"),
    "node list x gpu-1": (ExitCode.REFUSED, "no node is named 'x'", "list the nodes to find its name"),
    "node list ''": (ExitCode.USAGE, "expected a name, an ID or a glob, got ''", ""),
    "node list ' ' --status active": (ExitCode.USAGE, "expected a name, an ID or a glob, got ' '", ""),
    "node drain gpu-1 '' --reason x": (ExitCode.USAGE, "expected a name, an ID or a glob, got ''", ""),
    "segment list ''": (ExitCode.USAGE, "expected a name, an ID or a glob, got ''", ""),
    "node list --sort-by statu": (ExitCode.USAGE, "no field is named 'statu'; did you mean 'status'?", ""),
    "resource list nodes": (ExitCode.USAGE, "unknown kind 'nodes'", ", node"),
    "resource list network_segment --state actve": (ExitCode.USAGE, "'actve'", "expected one of"),
    "segment show x": (ExitCode.REFUSED, "no network segment is named 'x'", ""),
    "history list --resource gpu-1": (ExitCode.USAGE, "expected KIND/NAME", ""),
    "history list --after x": (ExitCode.USAGE, "expected the key of a history entry", ""),
    "history prune --older-than 1h": (ExitCode.USAGE, "at least 1d", ""),
    "node history gpu-1 --last yesterday": (ExitCode.USAGE, "expected an age (30m, 2h, 7d)", ""),
    "history list --last 99999999d": (ExitCode.USAGE, "--last: expected an age (30m, 2h, 7d) of at most 36500d", ""),
    "node history gpu-1 --at-least 99999999d": (ExitCode.USAGE, "--at-least: expected a duration of at most", ""),
    "intent get 99999999999999999999": (ExitCode.USAGE, "'ID'", ""),
    "intent wait 1 --timeout -5s": (ExitCode.USAGE, "--timeout: expected a duration such as 30s", ""),
    "enqueue node 99999999999999999999": (ExitCode.REFUSED, "no node is named '99999999999999999999'", ""),
    "site unbrake ams --reason x --for 25h": (ExitCode.USAGE, "--for: expected a duration of at most 1d, got", ""),
    "node drain gpu-1 --until activ": (ExitCode.USAGE, "no status is named 'activ'; did you mean 'active'?", ""),
    "resource act network_segment delet x": (ExitCode.USAGE, "named 'delet'; expected one of: create", ""),
    "resource act network_segment updte x": (ExitCode.USAGE, "named 'updte'; did you mean 'update'?", ""),
    "intent list --status rejectd": (ExitCode.USAGE, "no status of intents is named 'rejectd'", ""),
}


@pytest.mark.parametrize("words", MISTAKES)
async def test_a_mistake_is_refused_in_one_line_with_the_alternatives(farrier: Prompt, words: str) -> None:
    code, text, hint = MISTAKES[words]
    await farrier("node", "add", "gpu-1")
    said = await farrier(*shlex.split(words), ends=code)
    first, *more = said.err.splitlines()
    assert first.startswith("farrier: ") and text in first
    assert all(line.startswith("hint: ") for line in more) and len(more) <= 1
    assert hint in said.err
    assert "Traceback" not in said.err
