"""Secrets in Vault: client and fake agree with Vault's responses, and the client reads only the configured paths.

The suite runs on the fake and on recorded responses. Behaviour of a faulty Vault is in `test_vault_faults`.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import Any

import httpx
import msgspec
import pytest

from tests.support import vault_recorded as recorded
from tests.support.vault import LOOK_UP, TOKEN, FakeVault
from tests.support.vault_client import PATH, REFERENCE, URL_PATH, Client, refusal
from tests.support.vault_recorded import PASSWORD, USERNAME, Recorded

# --- the contract


class Situation(msgspec.Struct, frozen=True):
    """A recorded response, the change of the fake that causes it, and the error that it means."""

    answer: Recorded
    happen: Callable[[FakeVault], object]
    says: str
    temporary: bool = False


SITUATIONS = {
    "deleted": Situation(recorded.DELETED, lambda v: v.delete(PATH), "version 3 of the secret was deleted at 2026-"),
    "destroyed": Situation(recorded.DESTROYED, lambda v: v.destroy(PATH), "version 3 of the secret was destroyed"),
    "missing": Situation(recorded.MISSING, lambda v: v.forget(PATH), "Vault has no such secret"),
    "no mount": Situation(recorded.NO_MOUNT, lambda v: v.mounts.clear(), "no secrets engine at vault.mount"),
    "denied": Situation(
        recorded.DENIED, lambda v: v.forbidden.add(PATH), "does not allow the configured token to read this path"
    ),
    "bad token": Situation(recorded.BAD_TOKEN, lambda v: v.tokens.clear(), "refuses the token", temporary=True),
    "sealed": Situation(recorded.SEALED, lambda v: setattr(v, "sealed", True), "sealed", temporary=True),
    "limited": Situation(recorded.LIMITED, lambda v: setattr(v, "limited", True), "too many requests", temporary=True),
    "standby": Situation(recorded.STANDBY, lambda v: setattr(v, "standby", True), "a redirect", temporary=True),
}


def shape(value: Any, key: str = "") -> Any:
    """The names and types of a response; the texts of errors are compared as they are."""
    match value:
        case dict():
            return {name: shape(inner, name) for name, inner in value.items()}
        case list() if key == "errors":
            return value
        case list():
            return [shape(inner) for inner in value]
        case _:
            return type(value).__name__


async def ask(server: FakeVault, path: str) -> httpx.Response:
    """The response to a request that another HTTP client sends."""
    context = ssl.create_default_context(cafile=server.ca_file)
    async with httpx.AsyncClient(base_url=server.address, verify=context, trust_env=False) as client:
        return await client.get(path, headers={"X-Vault-Token": TOKEN})


@pytest.mark.parametrize("name", ["read", "token", *SITUATIONS])
async def test_responses_of_the_fake_have_the_shape_of_vaults(server: FakeVault, name: str) -> None:
    situation = SITUATIONS.get(name)
    if situation is not None:
        situation.happen(server)
    wanted = situation.answer if situation else recorded.READ if name == "read" else recorded.TOKEN
    answer = await ask(server, LOOK_UP if name == "token" else URL_PATH)
    assert answer.status_code == wanted.status
    assert answer.headers.get("location") == wanted.location
    assert shape(answer.json() if answer.content else None) == shape(wanted.body)


@pytest.fixture(params=["fake", "recorded"])
def comes_to(request: pytest.FixtureRequest, server: FakeVault) -> Callable[[Situation], None]:
    """Bring about a situation: by the change that causes it, or by replaying Vault's recorded response."""

    def happen(situation: Situation) -> None:
        if request.param == "fake":
            situation.happen(server)
            return
        server.replay(URL_PATH, situation.answer)
        token_is_good = situation.answer is recorded.DENIED
        server.replay(LOOK_UP, recorded.TOKEN if token_is_good else situation.answer)

    return happen


async def test_the_newest_version_of_a_secret_is_resolved(
    server: FakeVault, client: Client, comes_to: Callable[[Situation], None]
) -> None:
    comes_to(Situation(recorded.READ, lambda _: None, ""))
    async with client.connect() as store:
        credential = await store.resolve(REFERENCE)
    assert (credential.username, credential.password) == (USERNAME, PASSWORD)
    assert credential.version.startswith("3-")
    assert client.observed.requests == [("read", "ok")]
    (request,) = server.requests
    assert (request.method, request.path, request.headers["x-vault-token"]) == ("GET", URL_PATH, TOKEN)
    assert "x-vault-namespace" not in request.headers


@pytest.mark.parametrize("name", SITUATIONS)
async def test_every_refusal_has_its_own_text_and_class(
    client: Client, comes_to: Callable[[Situation], None], name: str
) -> None:
    """An error of the secret waits for an edit; an error of Vault is temporary."""
    situation = SITUATIONS[name]
    comes_to(situation)
    async with client.connect() as store:
        error = await refusal(store)
    assert situation.says in error.reason
    assert error.temporary is situation.temporary


# --- where references lead


@pytest.mark.parametrize(
    "path",
    [
        "farrier/../other",
        "farrier/bmc/../../other",
        "farrier/..",
        "../farrier/bmc",
        "farrier/./bmc",
        "/farrier/bmc",
        "farrier//bmc",
        "farrier/bmc/",
        "farrier/%2e%2e/other",
        "farrier%2fbmc",
        "farrier/..%2fother",
        "farrier\\bmc",
        "farrier/bmc?version=1",
        "farrier/bmc#x",
        "farrier/bmc;x",
        "farrier/b mc",
        "farrier/bmc\n",
        "farrier/bmc\0",
        "farrier/bmç",
        "//vault.example/x",
        "https://vault.example/x",
        "other/bmc",
        "farrier",
        "farrier-of-others/bmc",
        "FARRIER/bmc",
        "secret/data/farrier/bmc",
    ],
)
async def test_a_path_that_leads_elsewhere_is_refused_before_anything_is_sent(
    server: FakeVault, client: Client, path: str
) -> None:
    client.renew(None)  # the refusal comes before the token is read
    async with client.connect() as store:
        error = await refusal(store, f"vault:{path}")
    assert "path" in error.reason
    assert not error.temporary
    assert server.requests == []


async def test_the_whole_mount_is_open_only_where_the_prefix_is_empty(server: FakeVault, client: Client) -> None:
    server.put("anywhere", username="root", password="x")
    async with client.connect(path_prefix="") as store:
        assert (await store.resolve("vault:anywhere")).password == "x"
        assert "single slashes" in (await refusal(store, "vault:../sys/seal-status")).reason
    assert server.paths == ["/v1/secret/data/anywhere"]


async def test_mount_and_namespace_are_those_of_the_settings(server: FakeVault, client: Client) -> None:
    server.mounts = {"kv/bmc"}
    server.put("sites/a/gpu-1@rack-4:u12", username="root", password="x")
    async with client.connect(mount="kv/bmc", path_prefix="sites/a", namespace="fleet/prod") as store:
        assert (await store.resolve("vault:sites/a/gpu-1@rack-4:u12")).password == "x"
    (request,) = server.requests
    assert request.path == "/v1/kv/bmc/data/sites/a/gpu-1@rack-4:u12"
    assert request.headers["x-vault-namespace"] == "fleet/prod"


# --- the secret's content


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({"user": "root", "pass": "s3kr1t"}, "username"),
        ({"username": "root"}, "password"),
        ({"username": "root", "password": ["s3kr1t"]}, "password"),
        ({"username": "root", "password": None}, "password"),
        ({"username": "", "password": "s3kr1t"}, "empty"),
        ({"username": "ro:ot", "password": "s3kr1t"}, "colon"),
        ({}, "username"),
    ],
)
async def test_a_secret_without_a_pair_is_refused_and_not_repeated(
    server: FakeVault, client: Client, data: dict[str, Any], says: str
) -> None:
    server.put(PATH, **data)
    async with client.connect() as store:
        error = await refusal(store)
    assert says in error.reason
    assert not error.temporary


async def test_a_token_may_come_from_vault_too(server: FakeVault, client: Client) -> None:
    server.put("farrier/api", token="t0k3n")
    async with client.connect() as store:
        assert await store.token("vault:farrier/api") == "t0k3n"
