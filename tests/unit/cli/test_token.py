"""`farrier token create`: the token is printed once, and the file gets only its hash."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner, Result

from farrier import cli, clock
from farrier.config import token_file
from farrier.model import api_token


def create(*words: str) -> Result:
    return CliRunner().invoke(cli.app, ["token", "create", *words], env={"COLUMNS": "200"})


def test_the_printed_entry_makes_the_printed_token_valid(tmp_path: Path) -> None:
    said = create("ci", "--scope", "read", "--scope", "intent")
    token, _, entry = said.stdout.partition("\n\n")
    (tmp_path / "tokens.toml").write_text(entry)
    (loaded,) = token_file.load(str(tmp_path / "tokens.toml"))
    assert (loaded.name, loaded.scopes, loaded.expires) == ("ci", ("read", "intent"), None)
    assert loaded.sha256 == api_token.digest(token)
    assert token not in entry


def test_with_a_file_only_the_token_is_printed_and_its_entry_is_added(tmp_path: Path) -> None:
    file = tmp_path / "tokens.toml"
    tokens = [create(name, "--scope", "read", "--file", str(file)).stdout.strip() for name in ("ci", "cd")]
    assert [each.sha256 for each in token_file.load(str(file))] == [api_token.digest(token) for token in tokens]
    again = create("ci", "--scope", "admin", "--file", str(file))
    assert again.exit_code == 2
    assert again.stdout == ""
    assert len(token_file.load(str(file))) == 2


def test_a_token_may_expire(tmp_path: Path) -> None:
    file = tmp_path / "tokens.toml"
    create("ci", "--scope", "read", "--expires-in", "90d", "--file", str(file))
    (loaded,) = token_file.load(str(file))
    assert loaded.expires is not None
    left = loaded.expires - clock.wall()
    assert timedelta(days=90) - timedelta(minutes=1) < left <= timedelta(days=90)


def test_json_has_the_token_and_its_entry() -> None:
    said = msgspec.json.decode(create("ci", "--scope", "admin", "--json").stdout)
    assert f'sha256 = "{api_token.digest(said["token"])}"' in said["entry"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["ci"], "Missing option '--scope'"),
        (["ci", "--scope", "write"], "'write' is not one of 'read', 'intent', 'register', 'admin'"),
        (["c i", "--scope", "read"], "name: expected up to 63 letters, digits"),
        (["http.bearer_token", "--scope", "read"], "is reserved"),
        (["ci", "--scope", "read", "--expires-in", "soon"], "expected a duration such as"),
        (["ci", "--scope", "read", "--expires-in", "9999999d"], "expected a shorter duration"),
        (["ci", "--scope", "read", "--file", "/nowhere/tokens.toml"], "cannot be written: No such file or directory"),
    ],
)
def test_a_mistake_is_named_and_no_token_is_printed(words: list[str], said: str) -> None:
    result = create(*words)
    assert result.exit_code == 2
    assert said in result.stderr
    assert "fat_" not in result.output
