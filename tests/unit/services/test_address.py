"""The syntax of BMC addresses, and the addresses that lie in allowed networks."""

from __future__ import annotations

import pytest

from farrier.config import BmcConfig
from farrier.model.machine.bmc import BmcError, BmcFailure
from farrier.services.bmc.address import AllowedNetworks, parse


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("10.0.0.5", "https://10.0.0.5"),
        (" 10.0.0.5:8443 ", "https://10.0.0.5:8443"),
        ("https://10.0.0.5", "https://10.0.0.5"),
        ("https://10.0.0.5:443/", "https://10.0.0.5"),
        ("HTTPS://BMC-1.Example", "https://bmc-1.example"),
        ("bmc-1.example:8443", "https://bmc-1.example:8443"),
        ("fd00::5", "https://[fd00::5]"),
        ("[fd00::5]:8443", "https://[fd00::5]:8443"),
        ("https://bmc-1.example.:443", "https://bmc-1.example"),
        ("FD00:0::0:5", "https://[fd00::5]"),
    ],
)
def test_an_address_is_a_host_with_or_without_scheme_and_port(address: str, url: str) -> None:
    """All spellings of a host give one URL, because logins are counted per BMC."""
    assert str(parse(address)) == url
    assert parse(address) == parse(url)


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("", "must be host[:port]"),
        ("https://", "must be host[:port]"),
        ("https://[::1", "neither https://host[:port] nor"),
        ("https://[zz]", "neither https://host[:port] nor"),
        ("https://a\u2100b.example", "neither https://host[:port] nor"),
        ("h\x01ost", "neither https://host[:port] nor"),
        ("https://.", "must be host[:port]"),
        ("http://10.0.0.5", "only https:// is supported"),
        ("ftp://10.0.0.5", "only https:// is supported"),
        ("10.0.0.5:99999", "neither"),
        ("10.0.0.5:x", "neither"),
        ("10.0.0.5:0", "must be host[:port]"),
        ("https://10.0.0.5/redfish/v1", "must be host[:port]"),
        ("10.0.0.5/?a=b", "must be host[:port]"),
        ("10.0.0.5/#a", "must be host[:port]"),
        ("[fd00::5", "neither"),
        ("https://admin:s3kr1t@10.0.0.5", "set a credential reference"),
        ("admin:s3kr1t@10.0.0.5", "set a credential reference"),
        ("admin:s3kr1t@[10.0.0.5", "neither"),
    ],
)
def test_any_other_address_is_incomplete_and_the_error_repeats_no_password(address: str, says: str) -> None:
    with pytest.raises(BmcError) as raised:
        parse(address)
    assert raised.value.failure is BmcFailure.INCOMPLETE
    assert says in raised.value.detail
    assert "s3kr1t" not in repr(raised.value)


@pytest.mark.parametrize(
    ("address", "allowed"),
    [
        ("10.0.0.5", True),
        ("172.31.255.255", True),
        ("192.168.1.1", True),
        ("100.64.0.1", True),
        ("fd00::5", True),
        ("::ffff:10.0.0.5", True),
        ("127.0.0.1", False),
        ("::1", False),
        ("::ffff:127.0.0.1", False),
        ("169.254.169.254", False),
        ("fe80::1", False),
        ("fe80::1%eth0", False),
        ("8.8.8.8", False),
        ("0.0.0.0", False),
        ("bmc-1", False),
        ("167772165", False),
    ],
)
def test_private_networks_are_allowed_by_default_and_this_host_is_not(address: str, allowed: bool) -> None:
    assert AllowedNetworks(BmcConfig().allowed_networks).allows(address) is allowed


def test_only_the_configured_networks_are_allowed() -> None:
    networks = AllowedNetworks(("203.0.113.0/24",))
    assert networks.allows("203.0.113.7")
    assert not networks.allows("10.0.0.5")
    assert not AllowedNetworks(()).allows("203.0.113.7")
