"""The example on the page of the Python client, run against a served site."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import anyio.to_thread
import pytest

from tests.integration.client.test_client import BEGINNING, url
from tests.integration.test_web_feed import SETTLED
from tests.support import pg
from tests.support.web import TOKEN

__all__ = ["url"]

PAGE = Path(__file__).parents[3] / "docs" / "integrate" / "python-client.md"
EXAMPLE = re.compile(r"```python\n(from farrier\.client .*?)```", re.DOTALL)


def runnable(example: str, url: str) -> str:
    """The example with this server's address and token. It watches the changes of gpu-1 so far, and ends after one."""
    watches = re.search(r"^( *)for change in .*:\n( *)print\(.*\)\n", example, re.MULTILINE)
    assert watches is not None, "the example ends with a loop over changes"
    ended = f"{watches[0]}{watches[2]}break\n".replace("watch(", f'watch(after="{BEGINNING}", ').replace(
        "gpu-17", "gpu-1"
    )
    return example.replace(watches[0], ended).replace("https://farrier.example", url).replace("…", TOKEN)


@pytest.mark.usefixtures("site")
async def test_the_example_runs(url: str, db: pg.Database, capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = EXAMPLE.findall(PAGE.read_text(encoding="utf-8"))
    await db.advance(SETTLED)
    await anyio.to_thread.run_sync(partial(exec, runnable(example, url), {}))
    assert "gpu-17 " in capsys.readouterr().out
