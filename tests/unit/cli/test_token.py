"""`farrier token`: a created token is printed once, the file gets only its hash, and a list shows its clients."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner, Result

from farrier import cli, clock
from farrier.config import token_file
from farrier.config.token_file import ApiToken
from farrier.model import api_token


def create(*words: str) -> Result:
    return CliRunner().invoke(cli.app, ["token", "create", *words], env={"COLUMNS": "200"})


def listed(*words: str) -> Result:
    return CliRunner().invoke(cli.app, ["token", "list", *words], env={"COLUMNS": "200", "FARRIER_CONFIG": None})


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
        (["ci", "--scope", "write"], "'write' is not one of 'read', 'intent', 'register', 'conditions', 'admin'"),
        (["c i", "--scope", "read"], "name: expected up to 63 letters, digits"),
        (["http.bearer_token", "--scope", "read"], "is reserved"),
        (["ci", "--scope", "read", "--expires-in", "soon"], "expected a duration such as"),
        (["ci", "--scope", "read", "--expires-in", "9999999d"], "--expires-in: expected a duration of at most 36500d"),
        (["ci", "--scope", "read", "--expires-in", "0s"], "--expires-in: expected a duration of at least 1s, got '0s'"),
        (["ci", "--scope", "read", "--expires-in", "-3d"], "--expires-in: expected a duration such as"),
        (["ci", "--scope", "read", "--file", "/nowhere/tokens.toml"], "cannot be written: No such file or directory"),
    ],
)
def test_a_mistake_is_named_and_no_token_is_printed(words: list[str], said: str) -> None:
    result = create(*words)
    assert result.exit_code == 2
    assert said in result.stderr
    assert "fat_" not in result.output


def test_the_clients_of_a_file_are_listed_with_their_scopes_and_expiry_and_no_token(tmp_path: Path) -> None:
    file = tmp_path / "tokens.toml"
    create("ci", "--scope", "read", "--scope", "intent", "--file", str(file))
    create("installer", "--scope", "register", "--expires-in", "90d", "--file", str(file))
    old = clock.wall() - timedelta(hours=3)
    token_file.add(file, ApiToken(name="old", sha256="0" * 64, scopes=("read",), expires=old))
    heading, *lines = listed("--file", str(file)).stdout.splitlines()
    assert heading.split() == ["CLIENT", "SCOPES", "EXPIRES"]
    assert [line.split(maxsplit=1)[0] for line in lines] == ["ci", "installer", "old"]
    assert lines[0].endswith("never") and "in 89d" in lines[1] and "expired 3h ago" in lines[2]
    assert listed("--file", str(file), "-o", "name", "--sort-by", "-name").stdout.split() == ["old", "installer", "ci"]
    settings = tmp_path / "farrier.toml"
    settings.write_text(f'[http]\ntokens_file = "{file}"\n')
    assert [each["name"] for each in msgspec.json.decode(listed("--config", str(settings), "--json").stdout)] == [
        "ci",
        "installer",
        "old",
    ]


def test_a_list_without_a_file_of_tokens_is_a_usage_error() -> None:
    said = listed()
    assert said.exit_code == 2
    assert "set http.tokens_file" in said.stderr and "--file FILE" in said.stderr
