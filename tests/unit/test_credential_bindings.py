"""Bindings as operators write them: in the settings, in the environment, in a site's file."""

from __future__ import annotations

from pathlib import Path

import pytest

from farrier import config
from farrier.config import CredentialBinding
from farrier.config.site_files import load
from farrier.errors import ConfigError, CredentialError
from farrier.model.machine.bmc import BmcTarget
from farrier.services.credentials.bindings import Bindings

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
    assert load(str(tmp_path), config.AgentsConfig())["ams1"].credentials.bindings == READ


def test_bindings_are_read_from_the_environment_as_json() -> None:
    text = '[{"references": ["vault:farrier/bmc/*"], "networks": ["10.8.0.0/16"]}]'
    assert config.load(environment={"FARRIER_CREDENTIALS_BINDINGS": text}).credentials.bindings == READ[1:]


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ('references = ["file:/a"]', "needs hosts, networks or both"),
        ('references = ["*"]\nnetworks = ["10.0.0.0/8"]', "every reference must begin with"),
        ('references = []\nnetworks = ["10.0.0.0/8"]', "references"),
        ('references = ["file:/a"]\nnetwork = ["10.0.0.0/8"]', "network"),
        ('references = ["file:/a"]\nhosts = ["https://a"]', "without scheme"),
        ('references = ["file:/a"]\nnetworks = ["10.0.0.1/8"]', "10.0.0.1/8"),
        ('references = ["file:/a"]\nhosts = ["*"]', "matches any name"),
        ('references = ["file:/a"]\nhosts = ["gpu-1", "*.*-*"]', "matches any name"),
        ('references = ["file:/a"]\nhosts = ["10.8.*.*"]', "cannot stand for part of an address"),
    ],
)
def test_a_wrong_binding_is_refused_with_the_reason(tmp_path: Path, table: str, says: str) -> None:
    (tmp_path / "ams1.toml").write_text(f"[[credentials.bindings]]\n{table}\n")
    with pytest.raises(ConfigError, match=says):
        config.load(tmp_path / "ams1.toml", environment={})
    with pytest.raises(ConfigError, match=says):
        load(str(tmp_path), config.AgentsConfig())


def binds(host: str, *hosts: str, networks: tuple[str, ...] = ("10.0.0.0/8", "fd00::/8")) -> bool:
    bindings = Bindings((CredentialBinding(references=("env:*",), hosts=hosts, networks=networks),))
    try:
        bindings.of(BmcTarget(address=f"https://{host}", credential="env:BMC"), host)
    except CredentialError:
        return False
    return True


@pytest.mark.matrix(strength=1)
@pytest.mark.parametrize("pattern", ["*", "*.*.*.*", "*.*", "*.1", "gpu-*.bmc.example"])
@pytest.mark.parametrize(
    "host", ["10.8.0.1", "fd00::1", "::ffff:10.8.0.1", "167772161", "10.1", "0x0a000001", "10.8.0.0x1"]
)
def test_a_star_matches_no_part_of_an_address(pattern: str, host: str) -> None:
    if pattern != "*.1":
        assert not binds(host, pattern)
    else:
        with pytest.raises(ValueError, match="cannot stand for part of an address"):
            binds(host, pattern)


def test_a_star_matches_a_part_of_a_name() -> None:
    assert binds("gpu-1.bmc.example", "gpu-*.bmc.example")
    assert binds("gpu-1", "*")
    assert binds("2.bmc.example", "*.bmc.example")
    assert not binds("gpu-1.rack.bmc.example", "*.bmc.example")


@pytest.mark.parametrize("written", ["fd00::1", "fd00:0::1", "fd00:0:0:0:0:0:0:0001"])
def test_an_address_binds_in_every_notation(written: str) -> None:
    assert binds("fd00::1", written, networks=())
    assert not binds("fd00::2", written, networks=())
    assert not binds("gpu-1", written, networks=())
    assert binds("10.8.0.1", "10.8.0.1", networks=())
    assert not binds("10.8.0.11", "10.8.0.1", networks=())
