"""The page on access over HTTP: its commands run against a server that reads the file of tokens which they write."""

from __future__ import annotations

import shutil
import signal
import ssl
import sys
from pathlib import Path

import anyio
import anyio.to_thread
import httpx

from farrier import clock
from farrier.model.loop.doors import DoorKind
from farrier.sim.certificates import Authority
from tests.support import logins, pages, pg
from tests.support.process import PATIENCE, Farrier, farrier, replica, until

BLOCKS = {
    block.marker.removeprefix("sh: "): block.text
    for block in pages.blocks(pages.ROOT / "docs" / "operate" / "http-access.md")
}


async def types(block: str, directory: Path, url: str = "") -> str:
    """Run the lines of a block in a shell, and return the output."""
    lines = BLOCKS[block].replace("http://127.0.0.1:9465", url)
    environment = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "PYTHONPATH": str(pages.ROOT)}
    done = await anyio.run_process(["bash", "-euc", lines], cwd=directory, env=environment, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


async def status(server: Farrier, token: str) -> int:
    """The status code of a POST with this token, whose body is refused once the token is accepted."""
    url = (await server.until("http.listening"))["url"]
    async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=PATIENCE) as client:
        answer = await client.post("/api/v1/intents", content="{", headers={"Authorization": f"Bearer {token}"})
        return answer.status_code


async def forwarded(server: Farrier, client: str) -> httpx.Response:
    """The response to a client that reads through a proxy on this host."""
    url = (await server.until("http.listening"))["url"]
    async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=PATIENCE) as proxy:
        return await proxy.get("/api/v1/nodes", headers={"X-Forwarded-For": client})


async def counted(server: Farrier, event: str, times: int) -> bool:
    """Whether the server has logged the event so many times."""
    return server.names.count(event) == times


async def test_the_page_s_tokens_are_accepted_until_they_leave_the_file(db: pg.Database, tmp_path: Path) -> None:
    await types("create", tmp_path)
    file = tmp_path / "tokens.toml"
    ci, installer = ((tmp_path / f"{name}.token").read_text().strip() for name in ("ci", "installer"))
    settings = {"FARRIER_HTTP_TOKENS_FILE": str(file)}
    dsn = await logins.dsn_of(db, *logins.ROLES[DoorKind.PAGES])
    async with farrier("serve", "--dsn", dsn, "--port", "0", environment=settings) as server:
        await server.until("server.ready")
        async with db.connect() as conn:
            await conn.execute("SELECT farrier.register_node('gpu-017')")
            async with replica(db.dsn) as daemon:
                await daemon.until("daemon.ready")
                said = await types("use", tmp_path, (await server.until("http.listening"))["url"])
            assert '"gpu-017"' in said and '"accepted"' in said
            assert await conn.fetchval("SELECT requested_by FROM farrier.intents") == "ci"
        assert (await status(server, ci), await status(server, installer)) == (400, 403)
        assert (await server.get("/api/v1/nodes")).status_code == 200
        assert (await forwarded(server, "192.0.2.7")).status_code == 401, "a proxy forwards a client from elsewhere"

        kept = file.read_text()
        file.write_text(kept.replace("sha256", "sha265"))
        server.send(signal.SIGHUP)
        refused = (await server.until("tokens.refused"))["error"]
        assert f"{file}" in refused and "unknown key 'sha265'; did you mean 'sha256'?" in refused
        assert await status(server, ci) == 400, "the tokens of the last good file remain"

        file.write_text(kept[kept.index("[[tokens]]", 1) :])
        await server.until("config.reloaded")
        server.send(signal.SIGHUP)
        await until(lambda: counted(server, "tokens.used", 2))
        assert (await status(server, ci), await status(server, installer)) == (401, 403)
        server.send(signal.SIGTERM)
        assert await server.ended() == 0
    assert ci not in server.logged


async def test_a_file_of_tokens_that_is_unusable_keeps_the_server_from_starting(tmp_path: Path) -> None:
    file = tmp_path / "tokens.toml"
    file.write_text('[[tokens]]\nname = "ci"\n')
    settings = {"FARRIER_HTTP_TOKENS_FILE": str(file)}
    async with farrier("serve", "--dsn", "postgresql://127.0.0.1:1/farrier", environment=settings) as server:
        assert await server.ended() == 2
    error = (await server.until("process.failed"))["error"]
    assert f"the tokens file '{file}'" in error and "[tokens 1] sha256: is missing" in error
    assert "http.listening" not in server.names


async def test_a_renewed_certificate_is_served_after_a_signal_and_an_unusable_one_is_not(
    db: pg.Database, tmp_path: Path
) -> None:
    authority = Authority("test", now=clock.wall())
    trusted = ssl.create_default_context(cafile=authority.write(tmp_path / "ca.pem"))
    files = authority.issue(tmp_path, hosts=("127.0.0.1",))
    settings = {"FARRIER_HTTP_TLS_CERT": str(files.certificate), "FARRIER_HTTP_TLS_KEY": str(files.key)}
    dsn = await logins.dsn_of(db, *logins.ROLES[DoorKind.PAGES])
    async with farrier("serve", "--dsn", dsn, "--port", "0", environment=settings) as server:
        url = (await server.until("http.listening"))["url"]
        await server.until("server.ready")
        assert url.startswith("https://127.0.0.1:")
        async with httpx.AsyncClient(base_url=url, verify=trusted, trust_env=False, timeout=PATIENCE) as client:
            answer = await client.get("/api/v1/nodes")
            assert answer.status_code == 200
            assert "strict-transport-security" in answer.headers
        first = await served(url)

        (tmp_path / "second").mkdir()
        second = authority.issue(tmp_path / "second", hosts=("127.0.0.1",))
        shutil.copy(second.certificate, files.certificate)
        server.send(signal.SIGHUP)
        assert "KEY_VALUES_MISMATCH" in (await server.until("certificate.refused"))["error"]
        assert await served(url) == first
        shutil.copy(second.key, files.key)
        server.send(signal.SIGHUP)
        await until(lambda: counted(server, "config.reloaded", 2))
        assert await served(url) == second.certificate.read_text()


async def served(url: str) -> str:
    """The certificate of the server."""
    address = httpx.URL(url)
    assert address.port is not None
    return await anyio.to_thread.run_sync(ssl.get_server_certificate, (address.host, address.port))
