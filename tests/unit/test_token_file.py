"""The file of API tokens: what it accepts, and how a refusal names the fault on one line without a secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from farrier.config import token_file
from farrier.config.token_file import ApiToken
from farrier.errors import ConfigError
from farrier.model import api_token

TOKEN = api_token.token("5" * 64)
DIGEST = api_token.digest(TOKEN)
GOOD = f'[[tokens]]\nname = "ci"\nsha256 = "{DIGEST}"\nscopes = ["read", "intent"]\n'


def refusal(file: Path, text: str | bytes) -> str:
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigError) as refused:
        token_file.load(str(file))
    return str(refused.value)


def test_without_a_file_there_are_no_tokens() -> None:
    assert token_file.load("") == ()


def test_a_written_entry_is_read_unchanged(tmp_path: Path) -> None:
    file = tmp_path / "tokens.toml"
    file.write_text(f"{GOOD}expires = 2027-01-01T00:00:00Z\n")
    (read,) = token_file.load(str(file))
    file.write_text(token_file.entry(read))
    assert token_file.load(str(file)) == (read,)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "tokens: is missing; expected: [[tokens]] with name, sha256 and scopes"),
        ("tokens = []", "it has no token"),
        ("[[tokens]", "is not valid TOML"),
        ("[[tokens]]\nname = 'a'\nname = 'b'\n", "line 3"),
        (b"\xff", "cannot be read as UTF-8 text"),
        ("tokens = 3", "tokens: expected tables [[tokens]], got a number"),
        ("[token]\n", "unknown key 'token'; did you mean 'tokens'?"),
        (GOOD.replace("name", "nam"), "[tokens 1]: unknown key 'nam'; did you mean 'name'?"),
        (GOOD.replace('"ci"', "5"), "[tokens 1] name: Expected `str`, got `int`; got a number 5"),
        (GOOD.replace('"ci"', '"c i"'), "[tokens 1]: name: expected up to 63 letters"),
        (GOOD.replace('"ci"', '"anonymous"'), "name: 'anonymous' is reserved"),
        (GOOD.replace(DIGEST, TOKEN), "[tokens 1]: sha256: expected the 64 hexadecimal digits"),
        (GOOD.replace(f'"{DIGEST}"', f'["{TOKEN}"]'), "[tokens 1] sha256: Expected `str`, got `array`"),
        (
            GOOD.replace('"intent"', '"intents"'),
            "scopes: expected one or more of read, intent, register, conditions, admin; got",
        ),
        (
            GOOD.replace('["read", "intent"]', "[]"),
            "scopes: expected one or more of read, intent, register, conditions, admin",
        ),
        (f"{GOOD}expires = 2027-01-01T00:00:00\n", "expires: expected a time with its offset, such as 2027-01-01T00"),
        (f"{GOOD}expires = 'soon'\n", "[tokens 1] expires: Invalid RFC3339 encoded datetime; got 'soon'"),
        (GOOD * 2, "[tokens] name: tables 1, 2 have the same value"),
        (GOOD + GOOD.replace('"ci"', '"cd"'), "[tokens] sha256: tables 1, 2 have the same value"),
    ],
)
def test_a_fault_is_named_on_one_line_with_the_file_and_without_the_token(
    tmp_path: Path, text: str | bytes, fault: str
) -> None:
    said = refusal(tmp_path / "tokens.toml", text)
    assert said.startswith(f"the tokens file '{tmp_path}/tokens.toml' (http.tokens_file): ")
    assert fault in said
    assert "\n" not in said
    assert TOKEN not in said and DIGEST not in said


def test_a_file_that_cannot_be_read_is_refused_with_the_reason(tmp_path: Path) -> None:
    for path, reason in ((tmp_path / "none", "No such file"), (tmp_path, "Is a directory")):
        with pytest.raises(ConfigError, match=reason):
            token_file.load(str(path))


def test_a_token_is_added_to_a_file_unless_it_would_make_the_file_invalid(tmp_path: Path) -> None:
    file = tmp_path / "tokens.toml"
    ci, cd = (ApiToken(name=name, sha256=api_token.digest(name), scopes=("read",)) for name in ("ci", "cd"))
    token_file.add(file, ci)
    file.write_text(file.read_text().rstrip())  # as if an editor wrote no line end at the end
    token_file.add(file, cd)
    assert token_file.load(str(file)) == (ci, cd)
    before = file.read_bytes()
    with pytest.raises(ConfigError, match=r"tables 1, 3 have the same value"):
        token_file.add(file, ApiToken(name="ci", sha256=DIGEST, scopes=("admin",)))
    assert file.read_bytes() == before
