"""The BmcClient against sushy-static, a server of the sushy-tools project, which serves any files, sound or not.

Together with the emulator it covers all that a server other than our fake can do. The fake alone shows behaviour that
no file can express: a refused or locked account (sushy-static accepts any credential), statuses other than 200 and 404,
headers, sessions, redirects, silence, drips, lost replies, and power that changes.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import HTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest
from sushy_tools.static import main as static

from farrier.model.machine.bmc import BmcError, BmcFailure, BmcReading, BmcTarget, PowerState
from farrier.services.bmc import transport
from farrier.sim.certificates import Authority
from tests.support.bmc import CREDENTIAL, ROOT, SYSTEM, SYSTEMS, connect, members, sound, system
from tests.support.sockets import tls_with

BASEBOARD = "/redfish/v1/Systems/Baseboard"


@contextmanager
def serving(directory: Path, authority: Authority, pages: Mapping[str, Any]) -> Iterator[str]:
    """Run the server with these pages as raw bytes; gives its URL."""
    certificate = authority.issue(directory, hosts=("127.0.0.1",))
    for path, page in pages.items():
        file = directory / path.strip("/") / "index.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(page if isinstance(page, bytes) else msgspec.json.encode(page))
    with HTTPServer(("127.0.0.1", 0), static.RequestHandler) as server:
        server.socket = tls_with(certificate).wrap_socket(server.socket, server_side=True)
        static.REDFISH_MOCKUP_FILES = str(directory / "redfish" / "v1")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"https://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


class Site:
    """A sound BMC, whose pages may be replaced until it is read."""

    def __init__(self, directory: Path, authority: Authority) -> None:
        self._directory = directory
        self._authority = authority
        self.pages: dict[str, Any] = {path: answers[0] for path, answers in sound().items()}

    async def verify(self, system_path: str | None = SYSTEM, *, macs: bool = False) -> BmcReading:
        ca_file = self._authority.write(self._directory / "ca.crt")
        with serving(self._directory, self._authority, self.pages) as url:
            async with connect(ca_file) as client:
                target = BmcTarget(address=url, credential=CREDENTIAL, system_path=system_path)
                return await client.verify(target, macs=macs)

    async def fails(self, system_path: str | None = SYSTEM) -> BmcError:
        with pytest.raises(BmcError) as raised:
            await self.verify(system_path)
        return raised.value


@pytest.fixture
def site(tmp_path: Path, authority: Authority) -> Site:
    return Site(tmp_path, authority)


async def test_a_sound_bmc_is_read(site: Site) -> None:
    reading = await site.verify(None, macs=True)
    assert (reading.power, reading.system_path) == (PowerState.ON, SYSTEM)
    assert reading.macs == ("aa:bb:cc:00:00:01", "aa:bb:cc:00:00:02")
    assert reading == msgspec.structs.replace(await site.verify(), macs=reading.macs)


@pytest.mark.parametrize(
    ("page", "says"),
    [
        pytest.param(b'{"PowerState": "On"', "not JSON", id="malformed"),
        pytest.param(b"<html>Login</html>", "not JSON", id="html"),
        pytest.param(b"[]", "not a JSON object", id="list"),
        pytest.param(b'"' + b" " * 4 * transport.LARGEST_BODY_BYTES + b'"', "larger than", id="huge"),
        pytest.param(system(PowerState=None), "remains null", id="power-null"),
        pytest.param(system(PowerState="Paused"), "remains Paused", id="power-paused"),
    ],
)
async def test_a_system_that_cannot_be_read_is_a_matter_of_protocol(site: Site, page: object, says: str) -> None:
    site.pages[SYSTEM] = page
    error = await site.fails()
    assert error.failure is BmcFailure.PROTOCOL
    assert says in error.detail


@pytest.mark.parametrize(
    ("pages", "says"),
    [
        pytest.param({SYSTEM: system(Actions=...)}, "no action that switches", id="no-actions"),
        pytest.param({SYSTEM: b""}, "no action that switches", id="empty"),
        pytest.param({SYSTEMS: members()}, "lists no system", id="no-system"),
        pytest.param(
            {SYSTEMS: members(SYSTEM, BASEBOARD), BASEBOARD: system()},
            "add the path of the host's system",
            id="two-hosts",
        ),
        pytest.param({SYSTEMS: members(BASEBOARD)}, "returned HTTP 404", id="missing-member"),
        pytest.param({ROOT: {}}, "lists no systems", id="bare-root"),
    ],
)
async def test_a_bmc_without_the_required_resources_is_unsupported(
    site: Site, pages: dict[str, Any], says: str
) -> None:
    site.pages |= pages
    error = await site.fails(None)
    assert error.failure is BmcFailure.UNSUPPORTED
    assert says in error.detail
