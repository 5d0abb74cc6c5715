"""A wrong command line ends with one line that names what is wrong, before farrier connects to a database."""

from __future__ import annotations

import fcntl
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from farrier import cli

NOWHERE = {"XDG_CONFIG_HOME": "/nonexistent", "FARRIER_DATABASE_DSN": None, "FARRIER_CONFIG": None}
MISTAKES = {
    "resource act node frobnicate gpu-1": "No such command 'frobnicate'",
    "nodes": "No such command 'nodes'. Did you mean 'node'",
    "node drian": "No such command 'drian'. Did you mean 'drain'? (see farrier node --help)",
    "node reimag": "No such command 'reimag' (see farrier node --help)",
    "node delet": "No such command 'delet' (see farrier node --help)",
    "node get gpu-1": "No such command 'get'. Did you mean 'show', 'list', 'set'? (see farrier node --help)",
    "segment create": "No such command 'create'. Did you mean 'add'? (see farrier segment --help)",
    "partition describe x": "No such command 'describe'. Did you mean 'show'? (see farrier partition --help)",
    "history prun": "No such command 'prun' (see farrier history --help)",
    "node lst": "No such command 'lst'. Did you mean 'list', 'set'? (see farrier node --help)",
    "node list --nonsense": "No such option: --nonsense (see farrier node list --help)",
    "node show": "Missing argument 'NODE'",
    "node list --status activ": "no status is named 'activ'; did you mean 'active'?",
    "node list --status active,,offline": "no status is named ''",
    "node list --management manageble": "did you mean 'manageable'?",
    "node list -l !a=b": "expected KEY, !KEY, KEY=VALUE or KEY!=VALUE, got '!a=b'",
    "node list -o yaml": "expected wide, name, json or jsonpath=EXPR, got 'yaml'",
    "node list -o jsonpath=$[": "expected a JSONPath such as $[*].name, got '$['",
    "node list -o jsonpath=": "expected wide, name, json or jsonpath=EXPR, got 'jsonpath='",
    "history list --limit 0": "'--limit': Input should be greater than or equal to 1, got '0' (see",
    "history list --limit many": "unable to parse string as an integer, got 'many' (see",
    "demo --nodes 0": "'--nodes': Input should be greater than or equal to 1, got '0' (see",
    "demo --until-active --faults": "--until-active cannot be combined with --faults",
    "run --log-level loud": "farrier: '--log-level': 'loud' is not one of 'debug'",
    "node list --context nosuch": "no context is named 'nosuch'",
    "node list --context x --dsn postgresql://y": "omit --dsn, --embedded and --api",
    "context add x": "set at least one of dsn, embedded, api and config",
    "config check --config /nonexistent.toml": "cannot read /nonexistent.toml: No such file or directory",
    f"node list --embedded /tmp/{'x' * 300}": "is not a directory; farrier run --embedded creates a database",
    "node list --embedded /tmp/no-such-farrier": "/tmp/no-such-farrier is not a directory",
    "demo --dir /etc/passwd/x": "--dir: cannot use /etc/passwd/x: Not a directory",
    "demo --dir /etc/passwd": "--dir: cannot use /etc/passwd: File exists",
}


@pytest.mark.parametrize("words", MISTAKES)
def test_a_wrong_command_line_is_reported_in_one_line_with_the_value_and_advice(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    ended = CliRunner().invoke(cli.app, words.split(), env=NOWHERE)
    assert ended.exit_code == 2
    assert ended.stdout == ""
    (line,) = ended.stderr.splitlines()
    assert line.startswith("farrier: ")
    assert MISTAKES[words] in line
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("words", [(), ("node",), ("node", "list"), ("segment", "add"), ("run",)])
def test_h_shows_the_help_of_each_command(words: tuple[str, ...]) -> None:
    short, long = (CliRunner().invoke(cli.app, [*words, option], env=NOWHERE) for option in ("-h", "--help"))
    assert short.exit_code == 0
    assert short.stdout == long.stdout


def test_a_second_demo_in_a_directory_is_refused(tmp_path: Path) -> None:
    with open(tmp_path / "farrier.log", "a", encoding="utf-8") as log_of_the_first:
        fcntl.flock(log_of_the_first, fcntl.LOCK_EX)
        ended = CliRunner().invoke(cli.app, ["demo", "--dir", str(tmp_path), "--nodes", "1"])
    assert ended.exit_code == 2
    assert f"another demo is running in {tmp_path}" in ended.stderr
    assert [each.name for each in tmp_path.iterdir()] == ["farrier.log"]


def test_a_directory_that_the_daemon_cannot_use_is_reported_without_a_traceback() -> None:
    command = [sys.executable, "-m", "farrier", "run", "--embedded", f"/tmp/{'x' * 300}", "--metrics-port", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "File name too long; use a directory that this user may read and write" in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def test_a_group_without_a_command_shows_its_help() -> None:
    ended = CliRunner().invoke(cli.app, ["node"])
    assert ended.exit_code == 2
    assert "Usage:" in ended.output
