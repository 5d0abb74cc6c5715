"""A Vault over time: rotations, cached secrets, renewed tokens, and outages that end by themselves."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import msgspec
import pytest
from structlog.testing import capture_logs

from farrier.config import BmcConfig, CredentialBinding
from farrier.model.machine.bmc import BmcError, BmcFailure, BmcTarget
from farrier.services.bmc.access import BmcTimes
from farrier.services.bmc.client import open_bmc
from farrier.services.credentials.bindings import Bindings
from farrier.services.credentials.files import LARGEST_SECRET_BYTES
from farrier.services.credentials.forms import SecretFormat, SecretSource
from farrier.services.credentials.resolver import Credentials
from farrier.services.http.messages import HttpResponse as Heard
from farrier.services.vault import client as vault
from farrier.sim.certificates import Authority
from tests.support import bmc as bmcs
from tests.support.observed import Observed
from tests.support.sockets import ENOUGH, free_port
from tests.support.vault import TOKEN, Answer, FakeVault, Misbehaviour, Raw
from tests.support.vault_client import KEEP, PATH, REFERENCE, URL_PATH, Client, refusal
from tests.support.vault_recorded import PASSWORD, USERNAME

# --- rotation, and cached secrets


async def test_a_rotated_secret_is_read_once_the_cached_one_has_expired(server: FakeVault, client: Client) -> None:
    async with client.connect(keep=KEEP) as store:
        old = await store.version(REFERENCE)
        server.put(PATH, username=USERNAME, password="new")
        client.clock.advance(KEEP - timedelta(milliseconds=1))
        assert await store.version(REFERENCE) == old
        assert server.paths == [URL_PATH]
        client.clock.advance(timedelta(milliseconds=1))
        assert await store.version(REFERENCE) != old
        assert (await store.resolve(REFERENCE)).password == "new"
        assert server.paths == [URL_PATH] * 2


async def test_a_secret_that_was_deleted_and_written_again_has_another_version(
    server: FakeVault, client: Client
) -> None:
    """The version numbers of the secret begin at 1 again."""
    async with client.connect() as store:
        server.put("farrier/a", username="root", password="old")
        old = await store.version("vault:farrier/a")
        server.forget("farrier/a")
        server.put("farrier/a", username="root", password="new")
        client.clock.advance(KEEP)
        new = await store.version("vault:farrier/a")
    assert old != new
    assert old.startswith("1-") and new.startswith("1-")
    assert "new" not in new and len(new) == len("1-") + 8


async def test_many_nodes_with_one_secret_share_one_request(server: FakeVault, client: Client) -> None:
    server.hold()
    async with client.connect() as store, anyio.create_task_group() as nodes:
        for _ in range(50):
            nodes.start_soon(store.resolve, REFERENCE)
        await server.asked.wait()
        await anyio.wait_all_tasks_blocked()
        server.let_go()
    assert client.observed.requests == [("read", "ok")]


async def test_a_cancelled_caller_does_not_cancel_the_shared_request(server: FakeVault, client: Client) -> None:
    server.hold()
    found, first = [], anyio.CancelScope()

    async def impatient() -> None:
        with first:
            await store.resolve(REFERENCE)

    async def patient() -> None:
        found.append((await store.resolve(REFERENCE)).password)

    async with client.connect() as store, anyio.create_task_group() as nodes:
        nodes.start_soon(impatient)
        await server.asked.wait()
        nodes.start_soon(patient)
        await anyio.wait_all_tasks_blocked()
        first.cancel()
        server.let_go()
    assert first.cancelled_caught
    assert found == [PASSWORD]


async def test_no_more_requests_than_its_bound_are_under_way(server: FakeVault, client: Client) -> None:
    server.hold()
    async with client.connect() as store, anyio.create_task_group() as nodes:
        for number in range(3 * vault.CONCURRENCY):
            server.put(f"farrier/{number}", username="root", password="x")
            nodes.start_soon(store.resolve, f"vault:farrier/{number}")
        await server.asked.wait()
        while len(server.requests) < vault.CONCURRENCY:
            await anyio.lowlevel.checkpoint()
        await anyio.wait_all_tasks_blocked()
        assert len(server.requests) == vault.CONCURRENCY
        server.let_go()
    assert len(server.requests) == 3 * vault.CONCURRENCY


async def test_a_missing_secret_is_not_cached(server: FakeVault, client: Client) -> None:
    """An operator who has just written the secret need not wait."""
    async with client.connect() as store:
        assert "no such secret" in (await refusal(store, "vault:farrier/later")).reason
        server.put("farrier/later", username="root", password="x")
        assert (await store.resolve("vault:farrier/later")).password == "x"


# --- the token


async def test_a_renewed_token_is_used_without_a_restart(server: FakeVault, client: Client) -> None:
    server.put("farrier/other", username="root", password="x")
    async with client.connect() as store:
        await store.resolve(REFERENCE)
        server.tokens = {"hvs.n3w"}
        client.renew("hvs.n3w")
        await store.resolve("vault:farrier/other")
    assert [request.headers["x-vault-token"] for request in server.requests] == [TOKEN, "hvs.n3w"]


async def test_an_unreadable_token_is_temporary_and_read_again(server: FakeVault, client: Client) -> None:
    client.renew(None)
    async with client.connect() as store:
        error = await refusal(store)
        assert "No such file" in error.reason
        assert error.temporary
        assert server.requests == []
        client.renew(TOKEN)
        client.clock.advance(vault.PAUSE)
        assert (await store.resolve(REFERENCE)).password == PASSWORD


# --- a faulty Vault


async def fails_and_heals(
    server: FakeVault, client: Client, store: Credentials, *, answer: Answer, says: str, result: str
) -> None:
    server.replay(URL_PATH, answer)
    error = await refusal(store)
    assert says in error.reason
    assert error.temporary
    assert client.observed.requests == [("read", result)]
    server.replays.clear()
    client.clock.advance(vault.PAUSE)
    assert (await store.resolve(REFERENCE)).password == PASSWORD


@pytest.mark.parametrize(
    ("answer", "says", "result"),
    [
        (Misbehaviour.HANG_UP, "Vault closed the connection", "unreachable"),
        (Raw(500, b'{"errors":["internal error s3kr1t"]}'), "HTTP 500", "unavailable"),
        (Raw(502, b"<html>s3kr1t</html>"), "HTTP 502", "unavailable"),
        (Raw(412, b'{"errors":["required index state not present"]}'), "HTTP 412", "unavailable"),
        (Raw(400, b'{"errors":["s3kr1t"]}'), "HTTP 400", "protocol"),
        (Raw(200, b"<html>s3kr1t</html>"), "did not come from a KV version 2 engine", "protocol"),
        (Raw(200, b""), "did not come from a KV version 2 engine", "protocol"),
        (Raw(200, b"\xff\xfes3kr1t"), "did not come from a KV version 2 engine", "protocol"),
        (Raw(200, b'{"data":{"username":"root","password":"s3kr1t"}}'), "KV version 2", "protocol"),
        (Raw(200, b'{"data":{"data":{"password":"s3kr1t"},"metadata":{"version":"x"}}}'), "KV version 2", "protocol"),
        (Raw(404, b"<html>not here</html>"), "did not come from Vault", "protocol"),
    ],
)
async def test_each_failure_of_vault_has_its_own_text_and_is_temporary(
    server: FakeVault, client: Client, answer: Answer, says: str, result: str
) -> None:
    async with client.connect() as store:
        await fails_and_heals(server, client, store, answer=answer, says=says, result=result)


@pytest.mark.parametrize("answer", [Misbehaviour.SILENCE, Misbehaviour.HALF])
async def test_an_unfinished_response_of_vault_is_a_timeout_and_temporary(
    server: FakeVault, client: Client, answer: Answer
) -> None:
    async with client.connect(timeout=ENOUGH) as store:
        says = f"Vault sent no complete response within {ENOUGH.total_seconds():g} s"
        await fails_and_heals(server, client, store, answer=answer, says=says, result="timeout")


async def test_an_endless_response_is_cut_off(server: FakeVault, client: Client) -> None:
    server.replay(URL_PATH, Misbehaviour.FLOOD)
    async with client.connect() as store:
        error = await refusal(store)
    assert error.reason == f"the response is larger than {LARGEST_SECRET_BYTES} bytes"


async def test_all_callers_share_the_rare_requests_to_a_vault_that_is_down(server: FakeVault, client: Client) -> None:
    server.sealed = True
    server.put("farrier/other", username="root", password="x")
    with capture_logs() as logs:
        async with client.connect() as store:
            for _ in range(5):
                for reference in (REFERENCE, "vault:farrier/other"):
                    error = await refusal(store, reference)
                    assert "sealed" in error.reason and error.temporary and error.reference == reference
            assert len(server.requests) == 1
            client.clock.advance(vault.PAUSE)
            await refusal(store)
            assert len(server.requests) == 2
            server.sealed = False
            client.clock.advance(vault.PAUSE)
            await store.resolve(REFERENCE)
            await store.resolve("vault:farrier/other")
    assert [entry["event"] for entry in logs] == ["vault.unavailable", "vault.available"]


async def test_a_cached_secret_is_used_during_an_outage(server: FakeVault, client: Client) -> None:
    server.put("farrier/other", username="root", password="x")
    async with client.connect() as store:
        await store.resolve(REFERENCE)
        server.sealed = True
        await refusal(store, "vault:farrier/other")
        assert (await store.resolve(REFERENCE)).password == PASSWORD


async def test_a_closed_port_is_a_temporary_error(client: Client) -> None:
    with free_port() as port:
        async with client.connect(address=f"https://127.0.0.1:{port}") as store:
            error = await refusal(store)
    assert (error.reason, error.temporary) == ("no connection to Vault", True)


async def test_the_certificate_is_checked_before_the_token_is_sent(
    tmp_path: Path, server: FakeVault, client: Client
) -> None:
    stranger = Authority("another CA", now=datetime.now(UTC)).write(tmp_path / "stranger.crt")
    for ca_file in (stranger, None):
        async with client.connect(ca_file=str(ca_file or "")) as store:
            error = await refusal(store)
        assert "certificate is not trusted" in error.reason
        assert error.temporary
    async with client.connect(address=server.address.replace("127.0.0.1", "localhost")) as store:
        assert "certificate is not trusted" in (await refusal(store)).reason
    assert server.requests == []


BOUND = Bindings((CredentialBinding(references=("vault:farrier/bmc/*",), networks=("127.0.0.0/8",)),))


async def test_a_bmc_is_retried_after_a_vault_outage_but_waits_for_an_edit_of_a_missing_secret(
    tmp_path: Path, authority: Authority, server: FakeVault, client: Client
) -> None:
    """The BMC is not called in either case, so no login is used up."""
    server.put("farrier/bmc/sound", username=bmcs.USERNAME, password=bmcs.PASSWORD)
    config = BmcConfig(ca_file=str(server.ca_file), allowed_networks=bmcs.LOOPBACK)
    (tmp_path / "bmc").mkdir()
    async with (
        bmcs.fake_bmc(tmp_path / "bmc", authority) as bmc,
        client.connect() as store,
        open_bmc(
            config,
            BmcTimes(deadline=timedelta(seconds=30)),
            credentials=store,
            bindings=BOUND,
            observer=Observed("bmc"),
        ) as dialler,
    ):
        sound = BmcTarget(address=bmc.url, credential="vault:farrier/bmc/sound", system_path=bmcs.SYSTEM)
        server.sealed = True
        with pytest.raises(BmcError) as sealed:
            await dialler.verify(sound)
        server.sealed = False
        client.clock.advance(vault.PAUSE)
        with pytest.raises(BmcError) as missing:
            await dialler.verify(msgspec.structs.replace(sound, credential="vault:farrier/bmc/none"))
        assert bmc.requests == []
        reading = await dialler.verify(sound)
    assert [error.value.failure for error in (sealed, missing)] == [BmcFailure.UNREACHABLE, BmcFailure.INCOMPLETE]
    assert not sealed.value.dialled and not missing.value.dialled
    assert reading.credential_version.startswith("1-")


def test_representations_mask_the_secret() -> None:
    for value in (SecretSource(text="s3kr1t", form=SecretFormat.JSON), Heard(200, b"s3kr1t")):
        assert "s3kr1t" not in repr(value)
