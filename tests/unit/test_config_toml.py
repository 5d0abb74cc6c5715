"""Unusual and broken TOML files of settings and of sites."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from farrier import config
from farrier.config import AgentsConfig, site_files
from farrier.errors import ConfigError

Load = Callable[[Path], object]


def settings(file: Path) -> object:
    return config.load(file, environment={})


def sites(file: Path) -> object:
    return site_files.load(str(file.parent), AgentsConfig())


@pytest.fixture(params=[settings, sites])
def load(request: pytest.FixtureRequest) -> Load:
    """Each of the two functions that read such files."""
    found: Load = request.param
    return found


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "north.toml"


@pytest.mark.parametrize("reads", [settings, sites])
def test_a_byte_order_mark_is_ignored(file: Path, reads: Load) -> None:
    text = "[http]\nport = 8080\n" if reads is settings else "[deploy]\nhardware_sync = false\n"
    file.write_text(text, encoding="utf-8")
    plain = reads(file)
    file.write_text(text, encoding="utf-8-sig")
    assert file.read_bytes().startswith(b"\xef\xbb\xbf")
    assert reads(file) == plain


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param("[" * 100_000, "is not valid TOML", id="headings"),
        pytest.param("x = " + "[" * 100_000, "nested too deeply; at most 20", id="arrays"),
        pytest.param("[bmc]\nallowed_networks = " + "[" * 300 + "]" * 300, "nested too deeply", id="whole arrays"),
        pytest.param("[sla]\n" + ".".join("a" * 3000) + " = 1\n", "nested too deeply", id="dotted keys"),
        pytest.param("[http]\nport = " + "1" * 5000, "a number with thousands of digits", id="digits"),
    ],
)
def test_a_file_with_too_deep_nesting_or_too_long_numbers_is_refused(
    file: Path, load: Load, text: str, complaint: str
) -> None:
    file.write_text(text)
    with pytest.raises(ConfigError, match="is not valid TOML") as refused:
        load(file)
    assert complaint in str(refused.value)
    assert "recursion" not in str(refused.value)


@pytest.mark.parametrize("number", ["nan", "inf", "-inf", "1e300", "9" * 400])
@pytest.mark.parametrize(
    ("heading", "key", "reads"),
    [
        ("[controller]", "period", settings),
        ("[sla]", "status.offline", settings),
        ("[observe]", "events_every", sites),
    ],
)
def test_a_duration_that_is_not_finite_or_too_large_is_refused(
    file: Path, heading: str, key: str, reads: Load, number: str
) -> None:
    file.write_text(f"{heading}\n{key} = {number}\n")
    with pytest.raises(ConfigError, match="expected a finite number of seconds, at most 8639999") as refused:
        reads(file)
    assert heading in str(refused.value)
    assert key in str(refused.value)


@pytest.mark.parametrize("environment", [{"FARRIER_HTTP_HOST": ""}, {}])
def test_an_empty_address_to_listen_on_is_refused(file: Path, environment: dict[str, str]) -> None:
    file.write_text("" if environment else '[http]\nhost = ""\n')
    with pytest.raises(ConfigError, match=r"'host' in \[http\] of .*length >= 1"):
        config.load(file, environment=environment)


@pytest.mark.parametrize("host", ["a\\u0000b", "b\u00fccher.example"])
def test_an_address_to_listen_on_that_is_not_ascii_is_refused(file: Path, host: str) -> None:
    file.write_text(f'[http]\nhost = "{host}"\n', encoding="utf-8")
    with pytest.raises(ConfigError, match="a name or an address in ASCII"):
        settings(file)
