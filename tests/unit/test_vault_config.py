"""Settings of Vault and of files with secrets: refused before anything starts, with errors that repeat no secret."""

from __future__ import annotations

from datetime import timedelta

import pytest

from farrier import config
from farrier.config import VaultConfig
from farrier.errors import ConfigError
from farrier.model.credential import is_plain_path

SOUND = {"FARRIER_VAULT_ADDRESS": "https://vault.example:8200", "FARRIER_VAULT_TOKEN": "file:/run/vault/token"}


def refusal(**changes: str) -> str:
    with pytest.raises(ConfigError) as refused:
        config.load(environment=SOUND | changes)
    assert "s3kr1t" not in str(refused.value)
    return str(refused.value)


def test_every_setting_is_read() -> None:
    loaded = config.load(
        environment=SOUND
        | {
            "FARRIER_VAULT_MOUNT": "kv/bmc",
            "FARRIER_VAULT_PATH_PREFIX": "sites/a",
            "FARRIER_VAULT_NAMESPACE": "fleet",
            "FARRIER_VAULT_CA_FILE": "/etc/vault-ca.pem",
            "FARRIER_VAULT_TIMEOUT": "2s",
            "FARRIER_VAULT_KEEP": "10s",
        }
    )
    assert loaded.vault == VaultConfig(
        address="https://vault.example:8200",
        token="file:/run/vault/token",
        mount="kv/bmc",
        path_prefix="sites/a",
        namespace="fleet",
        ca_file="/etc/vault-ca.pem",
        timeout=timedelta(seconds=2),
        keep=timedelta(seconds=10),
    )


@pytest.mark.parametrize(
    "address",
    [
        "http://vault.example:8200",
        "vault.example:8200",
        "https://",
        "https://root:s3kr1t@vault.example",
        "https://vault.example/v1",
        "https://vault.example?x",
        "https://vault.example#x",
        "https://vault.example:99999",
    ],
)
def test_an_address_other_than_https_and_a_host_is_refused(address: str) -> None:
    assert "vault" in refusal(FARRIER_VAULT_ADDRESS=address)


@pytest.mark.parametrize("token", ["hvs.s3kr1t", "vault:farrier/s3kr1t", ":s3kr1t", ""])
def test_a_token_that_is_no_local_reference_is_refused(token: str) -> None:
    """`FARRIER_VAULT_TOKEN=hvs…` is an easy mistake, and the error must not repeat the token."""
    assert "token must be a reference" in refusal(FARRIER_VAULT_TOKEN=token)


@pytest.mark.matrix(strength=1)
@pytest.mark.parametrize("name", ["mount", "path_prefix", "namespace"])
@pytest.mark.parametrize("path", ["/secret", "secret/", "a//b", "..", "a/../b", ".", "a%2fb", "a b", "a?b"])
def test_a_path_that_is_not_plain_names_is_refused(name: str, path: str) -> None:
    assert f"{name} must be names" in refusal(**{f"FARRIER_VAULT_{name.upper()}": path})


def test_the_mount_has_a_name_and_the_others_may_be_empty() -> None:
    assert "mount must be names" in refusal(FARRIER_VAULT_MOUNT="")
    loaded = config.load(environment=SOUND | {"FARRIER_VAULT_PATH_PREFIX": "", "FARRIER_VAULT_NAMESPACE": ""})
    assert loaded.vault.path_prefix == ""


@pytest.mark.parametrize(
    ("path", "plain"),
    [("a", True), ("a/b.c/..d/e..", True), ("...", True), ("", False), ("a/", False), ("a\n", False), ("ä", False)],
)
def test_a_plain_path_consists_of_names_separated_by_slashes(path: str, plain: bool) -> None:
    assert is_plain_path(path) is plain


@pytest.mark.parametrize("root", ["creds", "./creds", "~/creds"])
def test_directories_of_files_are_absolute(root: str) -> None:
    """A relative directory would depend on the working directory of farrier."""
    said = refusal(FARRIER_CREDENTIALS_FILE_ROOTS=f"/run/creds,{root}")
    assert f"absolute paths, such as /run/secrets; got {root!r}" in said
