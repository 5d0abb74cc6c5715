"""A real Alertmanager sends groups of alerts to a real server, which states, ends or refuses conditions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from msgspec.structs import replace

from farrier.config import Config
from farrier.config.token_file import ApiToken, add
from farrier.model import api_token
from tests.support import pg, served
from tests.support.listening import listening
from tests.support.monitors import NAME, grant, refused, standing
from tests.support.process import until
from tests.support.programs import program
from tests.support.site import MINUTE, Site, opened

TOKEN = api_token.token("7" * 64)
# Alertmanager waits so long for further alerts of a group, and between two notifications. A group that was delivered
# is sent again only if it changes, so that a test sees each notification once.
PACE = "200ms"
REPEAT = "1h"
LASTS = 10 * MINUTE


class Alertmanager:
    """The API of a running Alertmanager, as Prometheus uses it."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def fire(self, *alerts: dict[str, str]) -> None:
        await self._post([{"labels": labels, "annotations": {"summary": "from a rule"}} for labels in alerts])

    async def resolve(self, *alerts: dict[str, str]) -> None:
        ended = (datetime.now(UTC) - timedelta(seconds=1)).isoformat()
        began = (datetime.now(UTC) - timedelta(minutes=1)).isoformat()
        await self._post([{"labels": labels, "startsAt": began, "endsAt": ended} for labels in alerts])

    async def _post(self, alerts: list[dict[str, Any]]) -> None:
        async with httpx.AsyncClient(trust_env=False) as client:
            (await client.post(f"{self._url}/api/v2/alerts", json=alerts)).raise_for_status()


def settings(farrier: str, credentials: Path) -> dict[str, Any]:
    """Two receivers: alerts with the label `cut` are grouped in one group, of which Alertmanager sends one alert."""
    webhook = {
        "url": f"{farrier}/api/v1/alertmanager",
        "http_config": {"authorization": {"credentials_file": str(credentials)}},
    }
    times = {"group_wait": PACE, "group_interval": PACE, "repeat_interval": REPEAT}
    cut = {"receiver": "cut", "matchers": ['cut = "yes"'], "group_by": ["cut"]}
    return {
        "route": {"receiver": "farrier", "group_by": ["node"], "routes": [cut], **times},
        "receivers": [
            {"name": "farrier", "webhook_configs": [webhook]},
            {"name": "cut", "webhook_configs": [{**webhook, "max_alerts": 1}]},
        ],
    }


@asynccontextmanager
async def sending(executable: str, directory: Path, farrier: str) -> AsyncIterator[Alertmanager]:
    """An Alertmanager that sends to this server; it is killed at the end."""
    credentials, file = directory / "token", directory / "alertmanager.yml"
    credentials.write_text(TOKEN)
    file.write_bytes(msgspec.json.encode(settings(farrier, credentials)))
    storage = f"--storage.path={directory / 'data'}"
    async with listening([executable, f"--config.file={file}", storage, "--cluster.listen-address="]) as url:
        yield Alertmanager(url)


@pytest.fixture
def alertmanager() -> str:
    """The path of the program."""
    return program("prometheus-alertmanager")


@pytest.fixture
async def site(db: pg.Database) -> AsyncIterator[Site]:
    """The loop of nodes, and a grant for the monitor."""
    async with opened(db) as site:
        await grant(site.conn, ids=["gpu/*"], effect="quarantine", lasts=LASTS)
        yield site


@pytest.fixture
async def farrier(db: pg.Database, site: Site, tmp_path: Path) -> AsyncIterator[str]:
    """The URL of a server with the monitor's token."""
    tokens = tmp_path / "tokens.toml"
    add(tokens, ApiToken(name=NAME, sha256=api_token.digest(TOKEN), scopes=("conditions",)))
    config = Config()
    async with served.server(db, replace(config, http=replace(config.http, tokens_file=str(tokens)))) as url:
        yield url


def becomes(site: Site, *expected: tuple[Any, ...]) -> Callable[[], Awaitable[bool]]:
    """Whether exactly these conditions of the monitor stand."""

    async def check() -> bool:
        return await standing(site.conn) == list(expected)

    return check


def alert(node: str, id_: str = "gpu/xid-79", **labels: str) -> dict[str, str]:
    return {"alertname": "GpuXid", "node": node, "condition": id_, "effect": "quarantine", **labels}


async def test_firing_quarantines_a_node_and_resolved_returns_it(
    alertmanager: str, farrier: str, site: Site, tmp_path: Path
) -> None:
    machine = await site.active()
    async with sending(alertmanager, tmp_path, farrier) as sender:
        await sender.fire(alert(machine.name, target="GPU-5e"))
        await until(becomes(site, (machine.name, "gpu/xid-79", "GPU-5e", "quarantine", True)))
        await site.settled()
        assert (await machine.state())[0] == "quarantined"
        await sender.resolve(alert(machine.name, target="GPU-5e"))
        await until(becomes(site))
    await site.settled()
    assert (await machine.state())[0] == "active"


async def test_the_conditions_of_a_lost_alertmanager_become_unknown(
    alertmanager: str, farrier: str, site: Site, tmp_path: Path
) -> None:
    machine, other = await site.active(), await site.active()
    async with sending(alertmanager, tmp_path, farrier) as sender:
        await sender.fire(alert(machine.name), alert(other.name, "gpu/hot", effect="note"))
        stated = ((machine.name, "gpu/xid-79", "", "quarantine"), (other.name, "gpu/hot", "", "note"))
        await until(becomes(site, *((*each, True) for each in stated)))
        await site.settled()
    await site.wait(LASTS)
    await other.beat()
    assert await becomes(site, *((*each, False) for each in stated))()
    assert ((await machine.state())[0], (await other.state())[0]) == ("quarantined", "active")


async def test_a_group_states_what_maps_to_nodes_and_lists_the_rest(
    alertmanager: str, farrier: str, site: Site, tmp_path: Path
) -> None:
    first, second = await site.active(), await site.active()
    known = [alert(first.name, target=f"GPU-{number}", effect="note") for number in range(3)]
    async with sending(alertmanager, tmp_path, farrier) as sender:
        await sender.fire(
            *known, alert(second.name), alert("gpu-99"), alert(first.name, "disk/full"), {"alertname": "Up"}
        )
        ours = [(first.name, "gpu/xid-79", f"GPU-{number}", "note", True) for number in range(3)]
        await until(becomes(site, *ours, (second.name, "gpu/xid-79", "", "quarantine", True)))

        async def listed() -> bool:
            return len(await refused(site.conn)) == 3

        await until(listed)
    assert [each[:3] for each in await refused(site.conn)] == [
        ("", "", "unmapped"),
        (first.name, "disk/full", "forbidden"),
        ("gpu-99", "gpu/xid-79", "unmapped"),
    ]


async def test_a_truncated_group_is_refused_each_time_and_takes_no_other_group_with_it(
    alertmanager: str, farrier: str, site: Site, tmp_path: Path
) -> None:
    first, second = await site.active(), await site.active()
    async with sending(alertmanager, tmp_path, farrier) as sender:
        await sender.fire(alert(first.name, cut="yes"), alert(second.name, cut="yes"))

        async def twice() -> bool:
            return [each[2] for each in await refused(site.conn) if each[3] > 1] == ["truncated"]

        await until(twice)
        assert await standing(site.conn) == []
        await sender.fire(alert(second.name))
        await until(becomes(site, (second.name, "gpu/xid-79", "", "quarantine", True)))
