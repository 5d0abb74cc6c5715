"""Matches of references and hosts: a star matches within one name, and no spelling leads to another directory."""

from __future__ import annotations

import pytest

from farrier.config import CredentialBinding
from farrier.errors import CredentialError
from farrier.model.machine.bmc import BmcTarget
from farrier.services.credentials.bindings import Bindings


def fits(reference: str, host: str, *, references: str = "file:/run/creds/bmc-*", hosts: str = "*.bmc.example") -> bool:
    bindings = Bindings((CredentialBinding(references=(references,), hosts=(hosts,)),))
    try:
        bindings.of(BmcTarget(address=host, credential=reference), host)
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
def test_a_star_in_a_reference_stays_within_a_name(reference: str, fit: bool) -> None:
    assert fits(reference, "a.bmc.example") is fit


@pytest.mark.parametrize("reference", ["file:/run/../etc", "file:/run/./x", "vault:a/../b", "vault:../b", "file:.."])
def test_a_star_does_not_match_a_path_to_another_directory(reference: str) -> None:
    for pattern in ("file:*", "file:/run/*/*", "file:/run/*/etc", "vault:*/*", "vault:a/*/b", "file:/*/*/*"):
        assert not fits(reference, "a.bmc.example", references=pattern)


@pytest.mark.parametrize(
    ("host", "fit"),
    [
        ("a.bmc.example", True),
        ("a.b.bmc.example", False),
        ("bmc.example", False),
        ("a.bmc.example.evil.example", False),
        ("a-bmc.example", False),
    ],
)
def test_a_star_in_a_host_stays_within_a_label(host: str, fit: bool) -> None:
    assert fits("file:/run/creds/bmc-1", host) is fit


def test_the_error_for_an_invalid_reference_does_not_repeat_it() -> None:
    for reference in ("s3kr1t", "admin:s3kr1t"):
        with pytest.raises(CredentialError) as raised:
            Bindings().of(BmcTarget(address="a", credential=reference), "a")
        assert "s3kr1t" not in str(raised.value)
