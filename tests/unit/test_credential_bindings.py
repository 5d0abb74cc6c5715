"""Bindings as operators write them: in the settings, in the environment, in a site's file."""

from __future__ import annotations

from pathlib import Path

import pytest

from farrier import config
from farrier.config import CredentialBinding
from farrier.config.site_files import load
from farrier.errors import ConfigError

WRITTEN = """
[[credentials.bindings]]
references = ["file:/run/farrier/bmc-*"]
hosts = ["*.bmc.ams1.example"]
networks = ["10.8.0.0/16"]

[[credentials.bindings]]
references = ["vault:farrier/bmc/*"]
networks = ["10.8.0.0/16"]
"""
READ = (
    CredentialBinding(
        references=("file:/run/farrier/bmc-*",), hosts=("*.bmc.ams1.example",), networks=("10.8.0.0/16",)
    ),
    CredentialBinding(references=("vault:farrier/bmc/*",), networks=("10.8.0.0/16",)),
)


def test_bindings_are_read_from_the_settings(tmp_path: Path) -> None:
    (tmp_path / "farrier.toml").write_text(WRITTEN)
    assert config.load(tmp_path / "farrier.toml", environment={}).credentials.bindings == READ
    assert config.load(environment={}).credentials.bindings == ()


def test_bindings_are_read_from_a_site_s_file(tmp_path: Path) -> None:
    (tmp_path / "ams1.toml").write_text(WRITTEN)
    assert load(str(tmp_path))["ams1"].credentials.bindings == READ


def test_bindings_are_read_from_the_environment_as_json() -> None:
    text = '[{"references": ["vault:farrier/bmc/*"], "networks": ["10.8.0.0/16"]}]'
    assert config.load(environment={"FARRIER_CREDENTIALS_BINDINGS": text}).credentials.bindings == READ[1:]


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ('references = ["file:/a"]', "without hosts and networks"),
        ('references = ["*"]\nnetworks = ["10.0.0.0/8"]', "references begin with"),
        ('references = []\nnetworks = ["10.0.0.0/8"]', "references"),
        ('references = ["file:/a"]\nnetwork = ["10.0.0.0/8"]', "network"),
        ('references = ["file:/a"]\nhosts = ["https://a"]', "without scheme"),
        ('references = ["file:/a"]\nnetworks = ["10.0.0.1/8"]', "10.0.0.1/8"),
    ],
)
def test_a_wrong_binding_stops_the_start_and_says_why(tmp_path: Path, table: str, says: str) -> None:
    (tmp_path / "ams1.toml").write_text(f"[[credentials.bindings]]\n{table}\n")
    with pytest.raises(ConfigError, match=says):
        config.load(tmp_path / "ams1.toml", environment={})
    with pytest.raises(ConfigError, match=says):
        load(str(tmp_path))
