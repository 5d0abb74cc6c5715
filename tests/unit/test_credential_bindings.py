"""Bindings as operators write them, in the settings, the environment and a site's file, and what a star matches."""

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


def binds(
    host: str,
    *hosts: str,
    networks: tuple[str, ...] = ("10.0.0.0/8", "fd00::/8"),
    reference: str = "env:BMC",
    pattern: str = "env:*",
) -> bool:
    bindings = Bindings((CredentialBinding(references=(pattern,), hosts=hosts, networks=networks),))
    try:
        bindings.of(BmcTarget(address=f"https://{host}", credential=reference), host)
    except CredentialError:
        return False
    return True


@pytest.mark.parametrize(
    ("reference", "fit"),
    [
        ("file:/run/creds/bmc-1", True),
        ("file:/run/creds/bmc-", True),
        ("file:/run/creds/bmc-1/../maas", False),
        ("file:/run/creds/bmc-../maas", False),
        ("file:/run/creds/bmc-1/x", False),
        ("file:/run/creds/./bmc-1", False),
        ("file:/run//creds/bmc-1", False),
        ("file:/run/creds/maas", False),
        ("FILE:/run/creds/bmc-1", False),
        ("vault:/run/creds/bmc-1", False),
        ("xfile:/run/creds/bmc-1", False),
        ("file:/run/creds/bmc-1\n/etc/shadow", False),
    ],
)
def test_a_star_in_a_reference_stays_within_a_name(reference: str, *, fit: bool) -> None:
    assert binds("a", reference=reference, pattern="file:/run/creds/bmc-*") is fit


@pytest.mark.parametrize("reference", ["file:/run/../etc", "file:/run/./x", "vault:a/../b", "vault:../b", "file:.."])
def test_a_star_does_not_match_a_path_to_another_directory(reference: str) -> None:
    for pattern in ("file:*", "file:/run/*/*", "file:/run/*/etc", "vault:*/*", "vault:a/*/b", "file:/*/*/*"):
        assert not binds("a", reference=reference, pattern=pattern)


@pytest.mark.parametrize(
    ("host", "pattern", "fit"),
    [
        ("a.bmc.example", "*.bmc.example", True),
        ("2.bmc.example", "*.bmc.example", True),
        ("gpu-1.bmc.example", "gpu-*.bmc.example", True),
        ("gpu-1", "*", True),
        ("a.b.bmc.example", "*.bmc.example", False),
        ("bmc.example", "*.bmc.example", False),
        ("a.bmc.example.evil.example", "*.bmc.example", False),
        ("a-bmc.example", "*.bmc.example", False),
    ],
)
def test_a_star_in_a_host_stays_within_a_label(host: str, pattern: str, *, fit: bool) -> None:
    assert binds(host, pattern) is fit


def test_the_error_for_an_invalid_reference_does_not_repeat_it() -> None:
    for reference in ("s3kr1t", "admin:s3kr1t"):
        with pytest.raises(CredentialError) as raised:
            Bindings().of(BmcTarget(address="a", credential=reference), "a")
        assert "s3kr1t" not in str(raised.value)


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


@pytest.mark.parametrize("written", ["fd00::1", "fd00:0::1", "fd00:0:0:0:0:0:0:0001"])
def test_an_address_binds_in_every_notation(written: str) -> None:
    assert binds("fd00::1", written, networks=())
    assert not binds("fd00::2", written, networks=())
    assert not binds("gpu-1", written, networks=())
    assert binds("10.8.0.1", "10.8.0.1", networks=())
    assert not binds("10.8.0.11", "10.8.0.1", networks=())
