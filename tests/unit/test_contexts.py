"""The file of contexts: what is saved is what is loaded, for its owner only; a wrong file is refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from farrier.config import contexts
from farrier.config.contexts import Context, Contexts
from farrier.errors import ConfigError

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path / "farrier"


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,9}", fullmatch=True), TEXTS, min_size=1))
def test_saved_contexts_are_loaded_unchanged(named: dict[str, str]) -> None:
    made = Contexts()
    for name, text in named.items():
        made = made.with_context(name, Context(dsn=f"postgresql://{text}", config=text))
    contexts.save(made)
    assert contexts.load() == made
    assert made.current == next(iter(named))
    assert contexts.path().stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("dsn", ["postgres://host/farrier", "file:/etc/farrier/dsn", "systemd:dsn"])
def test_a_dsn_may_be_a_reference_as_in_the_settings(dsn: str) -> None:
    assert Context(dsn=dsn).flags["database.dsn"] == dsn


def test_without_a_file_there_is_no_context() -> None:
    assert contexts.load() == Contexts()
    assert contexts.load().chosen() is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("current = ", "Invalid value"),
        ("[contexts.a]\ndns = 'x'", "unknown field `dns`"),
        ("[contexts.a]\n", "set at least one of dsn, embedded, api and config"),
        ("[contexts.a]\ndsn = 'postgresql://x'\nembedded = 'y'", "only one of dsn, embedded and api"),
        ("[contexts.a]\ndsn = 'host=x'", "dsn must be a URL such as postgresql://user@host/database"),
        ("[contexts.a]\napi = 'x:8080'", "api must be a URL such as https://farrier.example, not 'x:8080'"),
        ("[contexts.a]\ndsn = 1", "Expected `str`, got `int`"),
        ("contexts = 1", "Expected `object`, got `int`"),
    ],
)
def test_a_wrong_file_is_refused_with_its_name(home: Path, text: str, reason: str) -> None:
    home.mkdir()
    (home / "contexts.toml").write_text(text)
    with pytest.raises(ConfigError, match=reason) as refused:
        contexts.load()
    assert "contexts.toml" in str(refused.value)


def test_a_file_that_cannot_be_read_or_written_is_refused_with_the_reason(home: Path) -> None:
    (home / "contexts.toml").mkdir(parents=True)
    with pytest.raises(ConfigError, match="Is a directory"):
        contexts.load()
    with pytest.raises(ConfigError, match=r"cannot write .*contexts.toml: Is a directory"):
        contexts.save(Contexts())


def test_the_current_context_that_does_not_exist_is_refused_with_the_nearest(home: Path) -> None:
    home.mkdir()
    (home / "contexts.toml").write_text("current = 'prd'\n[contexts.prod]\ndsn = 'postgresql://x'\n")
    with pytest.raises(ConfigError, match=r"no context is named 'prd' in .*; did you mean 'prod'"):
        contexts.load().chosen()


def test_removing_the_current_context_selects_no_other() -> None:
    both = Contexts().with_context("a", Context(dsn="postgresql://x")).with_context("b", Context(dsn="postgresql://y"))
    assert both.without("a") == Contexts("", {"b": Context(dsn="postgresql://y")})
    assert both.without("b").current == "a"
