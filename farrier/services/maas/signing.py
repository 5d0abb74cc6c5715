"""The API key of a MAAS region, and the OAuth 1.0 header of each request (PLAINTEXT, so the secret is not encrypted).

The MAAS client uses this module. A nonce is valid for one request, so each attempt is signed again. The `repr` of an
`ApiKey` does not show the parts of the key. No log or error text may contain any of these parts; `secrets` lists them.
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import uuid4

import msgspec
from typing_extensions import override

from farrier.model.maas.reading import MaasError, MaasFailure


class ApiKey(msgspec.Struct, frozen=True, kw_only=True):
    """The API key of one user, which has three parts of ASCII letters and digits."""

    consumer: str
    token: str
    secret: str

    @override
    def __repr__(self) -> str:
        return "ApiKey(***)"

    @property
    def secrets(self) -> tuple[str, ...]:
        return (self.secret, self.token, self.consumer)

    def headers(self, now: float) -> Mapping[str, str]:
        """Return the OAuth header of one attempt. `now` is the Unix time; the region refuses a header that is five
        minutes old."""
        # The parts are letters and digits, so nothing is escaped. The consumer's secret, which precedes the ampersand,
        # is empty.
        return {
            "Authorization": (
                f'OAuth oauth_nonce="{uuid4().hex}", oauth_timestamp="{int(now)}", oauth_version="1.0", '
                f'oauth_signature_method="PLAINTEXT", oauth_consumer_key="{self.consumer}", '
                f'oauth_token="{self.token}", oauth_signature="%26{self.secret}"'
            )
        }


def parsed(text: str) -> ApiKey:
    """Parse a key in the form that MAAS prints. Raises `MaasError` `auth`, whose text does not contain the input."""
    parts = text.strip().split(":")
    if len(parts) != 3 or not all(part and part.isascii() and part.isalnum() for part in parts):
        raise MaasError(
            MaasFailure.AUTH, "the API key must consist of three parts of letters and digits, separated by colons"
        )
    consumer, token, secret = parts
    return ApiKey(consumer=consumer, token=token, secret=secret)
