"""Responses of a Vault KV version 2 engine as Vault documents and sends them: the model of the fake's responses.

Each is the response to `GET /v1/secret/data/farrier/bmc/gpu-1` (or, for the token, `GET /v1/auth/token/lookup-self`)
in one situation. Times, ids and the mount's accessor are made up; names, types and texts are Vault's.
"""

from __future__ import annotations

from typing import Any

import msgspec


class Recorded(msgspec.Struct, frozen=True):
    """Status and body; a redirect has the `location` that it leads to."""

    status: int
    body: dict[str, Any] | None
    location: str | None = None

    @property
    def raw(self) -> bytes:
        return b"" if self.body is None else msgspec.json.encode(self.body) + b"\n"


def _answer(data: dict[str, Any]) -> dict[str, Any]:
    return {
        "request_id": "7f6b3c2e-54a2-9a37-1d2f-0f9a4c1f7a11",
        "lease_id": "",
        "renewable": False,
        "lease_duration": 0,
        "data": data,
        "wrap_info": None,
        "warnings": None,
        "auth": None,
        "mount_type": "kv",
    }


def _version(number: int, *, deleted: str = "", destroyed: bool = False) -> dict[str, Any]:
    return {
        "created_time": "2026-03-15T14:30:00.339727561Z",
        "custom_metadata": None,
        "deletion_time": deleted,
        "destroyed": destroyed,
        "version": number,
    }


USERNAME = "root"
PASSWORD = "s3kr1t:with\"quotes'and blanks in it"
DELETED_AT = "2026-03-16T08:00:00.353904424Z"

READ = Recorded(
    200, _answer({"data": {"password": PASSWORD, "username": USERNAME, "note": "rack 4"}, "metadata": _version(3)})
)
DELETED = Recorded(404, _answer({"data": None, "metadata": _version(3, deleted=DELETED_AT)}))
DESTROYED = Recorded(404, _answer({"data": None, "metadata": _version(3, destroyed=True)}))
MISSING = Recorded(404, {"errors": []})
NO_MOUNT = Recorded(404, {"errors": ['no handler for route "secret/data/farrier/bmc/gpu-1". route entry not found.']})
DENIED = Recorded(403, {"errors": ["1 error occurred:\n\t* permission denied\n\n"]})
# Older versions say only "permission denied", so a client cannot rely on the text.
BAD_TOKEN = Recorded(403, {"errors": ["2 errors occurred:\n\t* permission denied\n\t* invalid token\n\n"]})
SEALED = Recorded(503, {"errors": ["Vault is sealed"]})
LIMITED = Recorded(429, {"errors": ['request path "secret/data/farrier/bmc/gpu-1": rate limit quota exceeded']})
STANDBY = Recorded(307, None, "https://vault-2.example:8200/v1/secret/data/farrier/bmc/gpu-1")
TOKEN = Recorded(
    200,
    _answer(
        {
            "accessor": "8609694a-cdbc-db9b-d345-e782dbb562ed",
            "creation_time": 1773585000,
            "creation_ttl": 2764800,
            "display_name": "approle",
            "entity_id": "7d2e3179-f69b-450c-7179-ac8ee8bd8ca9",
            "expire_time": "2026-04-16T14:30:00.204517514Z",
            "explicit_max_ttl": 0,
            "id": "hvs.t0k3n",
            "issue_time": "2026-03-15T14:30:00.204517514Z",
            "meta": {"role_name": "farrier"},
            "num_uses": 0,
            "orphan": True,
            "path": "auth/approle/login",
            "policies": ["default", "farrier"],
            "renewable": True,
            "ttl": 2764790,
            "type": "service",
        }
    )
    | {"mount_type": "token"},
)
