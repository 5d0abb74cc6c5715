"""Each attempt of a request has its own signature, as MAAS requires, and no text shows the key."""

from __future__ import annotations

import pytest

from farrier.model.maas.reading import MaasError, MaasFailure
from farrier.services.maas.service import api_key

KEY = "consumer01:token02:secret03"


def test_the_signature_is_an_ampersand_and_the_secret() -> None:
    header = api_key(KEY).headers(1700000000.9)["Authorization"]
    assert header.startswith("OAuth oauth_nonce=")
    for part in (
        'oauth_timestamp="1700000000"',
        'oauth_version="1.0"',
        'oauth_signature_method="PLAINTEXT"',
        'oauth_consumer_key="consumer01"',
        'oauth_token="token02"',
        'oauth_signature="%26secret03"',
    ):
        assert part in header


def test_no_two_attempts_have_the_same_nonce() -> None:
    key = api_key(KEY)
    assert len({key.headers(0.0)["Authorization"] for _ in range(100)}) == 100


@pytest.mark.parametrize("text", ["", "a:b", "a:b:c:d", "a::c", "a:b:c d", "a:b:\u00fc", 'a:b:c"'])
def test_a_malformed_key_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(MaasError) as refusal:
        api_key(text)
    assert refusal.value.failure is MaasFailure.AUTH
    assert not text or text not in str(refusal.value)


def test_the_repr_of_a_key_contains_no_part_of_it() -> None:
    key = api_key(f"{KEY}\n")
    assert not [part for part in KEY.split(":") if part in repr(key)]
