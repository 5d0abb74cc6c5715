"""docs/integrate/http.md shows requests and responses as they are: a shell runs each command, and a loop answers.

A command is marked `<!-- http -->`, its response `<!-- response: STATUS -->`. A response that is shown may leave fields
out.
"""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest

from farrier.web.server.serving import serving
from tests.support import pg
from tests.support.site import opened
from tests.support.web import TOKEN, backend_on, open_site

PAGE = (Path(__file__).parents[2] / "docs" / "integrate" / "http.md").read_text(encoding="utf-8")
EXAMPLE = re.compile(
    r"<!-- http -->\n```bash\n(?P<command>.*?)```\n\n<!-- response: (?P<status>\d+) -->\n```json\n(?P<shown>.*?)```",
    re.DOTALL,
)
STREAM = re.compile(r"<!-- stream -->\n```bash\n(?P<command>.*?)```\n\n```text\n(?P<shown>.*?)```", re.DOTALL)


@pytest.fixture
async def url(db: pg.Database) -> AsyncIterator[str]:
    """A server with a loop that answers."""
    async with opened(db), db.pool(size=3) as connections:
        site = open_site(backend_on(connections, db.dsn))
        async with serving(site.app, host="127.0.0.1", port=0) as url:
            yield url


class Shell:
    """One shell for all commands of the page, which keeps its variables."""

    def __init__(self, url: str, home: Path) -> None:
        (home / ".curlrc").write_text('write-out = "\\n%{http_code}"\n')
        self._variables: dict[str, str] = {}
        self._given = {"API": f"{url}/api/v1", "TOKEN": TOKEN, "CURL_HOME": str(home), "PATH": os.environ["PATH"]}

    async def run(self, command: str) -> tuple[int, Any]:
        """The status code and the response of the last request."""
        script = f'{command}\nprintf "\\n%s" "${{ETAG-}}"'
        done = await anyio.run_process(["bash", "-euc", script], env=self._given | self._variables)
        body, status, etag = done.stdout.decode().rsplit("\n", 2)
        self._variables = {"ETAG": etag}
        return int(status), json.loads(body)

    async def start(self, command: str) -> AsyncIterator[str]:
        """The output of a command that does not end."""
        async with await anyio.open_process(
            ["bash", "-euc", f"exec {command}"], env=self._given, start_new_session=True
        ) as process:
            assert process.stdout is not None
            try:
                async for chunk in process.stdout:
                    yield chunk.decode()
            finally:
                process.send_signal(signal.SIGTERM)


def misses(shown: Any, found: Any, at: str = "") -> list[str]:
    """The differences between a shown response and the real one. Numbers in texts may differ."""
    if isinstance(shown, dict) and isinstance(found, dict):
        return [each for name in shown for each in misses(shown[name], found.get(name, "(nothing)"), f"{at}.{name}")]
    if isinstance(shown, list) and isinstance(found, list) and len(shown) == len(found):
        return [each for pair in zip(shown, found, strict=True) for each in misses(*pair, at=f"{at}[]")]
    same = without_numbers(shown) == without_numbers(found)
    return [] if same else [f"{at}: {shown!r} is {found!r}"]


def without_numbers(value: Any) -> Any:
    return re.sub(r"\d+", "0", value) if isinstance(value, str) else value


async def test_the_page_shows_requests_and_responses_as_they_are(url: str, db: pg.Database, tmp_path: Path) -> None:
    shell = Shell(url, tmp_path)
    examples = list(EXAMPLE.finditer(PAGE))
    assert len(examples) == PAGE.count("<!-- http -->") >= 8
    for example in examples:
        if "history" in example["command"]:
            await db.advance(timedelta(seconds=5))
        status, found = await shell.run(example["command"])
        assert status == int(example["status"]), (example["command"], found)
        assert not misses(json.loads(example["shown"]), found), example["command"]
    stream = STREAM.search(PAGE)
    assert stream is not None
    seen = ""
    with anyio.fail_after(pg.PATIENCE.total_seconds()):
        async for text in shell.start(stream["command"]):
            seen += text
            if seen.count("event: change") >= 1 and stream["shown"].strip() in seen:
                break
