"""The pages in a real browser: rules of axe, narrow windows, dark mode, the keyboard, and updates of open pages."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from playwright.async_api import Browser, Page, async_playwright

from farrier.io.connections.pool import Connection
from farrier.web.pages import lists, resource
from farrier.web.server.backend import Backend
from farrier.web.server.serving import serving
from tests.integration.conftest import backend, conn
from tests.integration.test_pages import AGENT, FLEET, ONBOARDING, REGION, without_guards
from tests.support import owners, pg
from tests.support.monitors import grant, report
from tests.support.web import WITH_TOKEN, closed_site, register

__all__ = ["backend", "conn"]

# .ci/run installs both: Debian's chromium, and axe-core from the npm registry.
CHROMIUM = shutil.which("chromium") or ""
AXE = Path(os.environ.get("FARRIER_TEST_AXE", "/nonexistent"))

pytestmark = [
    pytest.mark.full,
    pytest.mark.xdist_group("chromium"),
    pytest.mark.skipif(not CHROMIUM, reason="needs chromium: apt-get install chromium"),
]

PATHS = (
    "/",
    "/?status=offline&sort=oldest&q=gpu-1*",
    "/?q=nosuch",
    "/?group=rack",
    "/act?action=drain&which=all&site=s1",
    "/act?action=set&which=picked",
    "/brake-lift?site=s1",
    "/nodes/node-1",
    "/resources",
    "/resources/maas_region",
    "/resources/maas_region/ams",
    "/controllers",
    "/monitors",
    "/history",
    "/nodes/nosuch",
    "/nodes/node-1/act/set",
    "/nodes/node-1/act/quarantine",
    "/nodes/node-1/act/release",
    "/create/ib_partition",
    "/login",
)
# axe does not check these two rules of WCAG 2.1 A and 2.2 AA by default.
VIOLATIONS = """
    async () => {
        const rules = {"target-size": {enabled: true}, "label-content-name-mismatch": {enabled: true}};
        return (await axe.run({rules})).violations.map(
            (each) => each.id + ": " + each.nodes.map((node) => node.html + " " + node.failureSummary).join("; "));
    }
"""
# Texts of names, states and times that a column cut in two: links and times of rows that take more than one line.
CUT = """
    () => [...document.querySelectorAll("td a, time, td .state")].filter((each) => {
        const range = document.createRange();
        range.selectNodeContents(each);
        const tops = new Set([...range.getClientRects()].map((line) => Math.round(line.top / 8)));
        return tops.size > 1;
    }).map((each) => each.innerText)
"""
LONG = """
    UPDATE farrier.nodes SET name = repeat('x', 253) WHERE name = 'gpu-10';
    UPDATE farrier.nodes
       SET site = 'osl-north-datacentre-with-long-name', model = 'GB200 NVL72 (72 GPUs, liquid cooled)',
           labels = '{"a-label-with-the-63-characters-that-a-name-of-a-label-may-have": "creme-brulee", "row": 7}',
           paused = '{"reason": "see https://tickets.example/INC-104421 for the discussion"}';
"""
# The element that has the focus, if a pointer at its centre would not meet it: it is clipped, covered or outside.
HIDDEN_FOCUS = """
    () => {
        const each = document.activeElement, box = each.getBoundingClientRect();
        const met = document.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2);
        return each === document.body || each.contains(met) ? null : each.outerHTML;
    }
"""
PLACEHOLDER = """
    () => [getComputedStyle(document.querySelector("[placeholder]"), "::placeholder").color,
           getComputedStyle(document.querySelector(".dim")).color]
"""
# The rows of the nodes in the inventory.
ROWS = """
    () => [...document.querySelectorAll(".rows tbody tr")].map((row) => {
        const {height, bottom} = row.getBoundingClientRect();
        return {height, bottom, display: getComputedStyle(row).display};
    })
"""
# The brake of a site holds eight nodes.
BRAKE = """
    INSERT INTO farrier.brakes (site, source, in_service, departed, counted_at, since)
    VALUES ('s1', 'silence', 10, 8, farrier.now(), farrier.now());
    INSERT INTO farrier.departures (site, source, node, at, held)
    SELECT site, 'silence', id, farrier.now(), true FROM farrier.nodes WHERE site = 's1' AND status = 'active'
"""
OVERFLOW = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture
async def url(backend: Backend, conn: Connection, db: pg.Database) -> AsyncIterator[str]:
    """The URL of a site with a node that is being onboarded, other nodes, a region, a controller and a monitor."""
    await register(conn, "node-1")
    await without_guards(conn, ";".join((ONBOARDING, AGENT, REGION, FLEET)))
    async with db.pool(size=1) as connections:
        await owners.joined(connections, "rack-1", {"node": 2.0, "maas_region": 0.5})
    await grant(conn, "alertmanager-of-the-north-datacentre", ids=["gpu/*", "fabric/*", "dcgm/*"])
    lost = {"node": "gpu-osl-r07-n17.north.example.com", "id": "gpu/xid-79", "target": "GPU-604ac76c-d9cf-fef3-62e9"}
    await report(conn, lost, {"node": "node-1", "id": "gpu/hot"}, monitor="alertmanager-of-the-north-datacentre")
    site = closed_site()
    site.open(backend)
    async with serving(site.app, host="127.0.0.1", port=0) as address:
        yield address


@asynccontextmanager
async def browser() -> AsyncIterator[Browser]:
    async with async_playwright() as driver:
        opened = await driver.chromium.launch(executable_path=CHROMIUM)
        yield opened
        await opened.close()


@pytest.mark.skipif(not AXE.exists(), reason="needs axe-core: npm install axe-core, FARRIER_TEST_AXE=…/axe.min.js")
@pytest.mark.parametrize(("scheme", "widths"), [("light", (1440, 1024, 390)), ("dark", (1440,))])
async def test_no_page_violates_a_rule_of_axe_or_is_wider_than_its_window(
    url: str, scheme: str, widths: tuple[int, ...]
) -> None:
    """The scheme changes only colours, so one width is enough for the second."""
    found = []
    rules = await anyio.Path(AXE).read_text(encoding="utf-8")
    async with browser() as opened:
        for width in widths:
            context = await opened.new_context(
                color_scheme=scheme,  # type: ignore[arg-type]
                viewport={"width": width, "height": 844},
                extra_http_headers=WITH_TOKEN,
            )
            page = await context.new_page()
            for path in PATHS:
                await page.goto(url + path)
                await page.evaluate(rules)
                found += [f"{path} at {width}: {violation}" for violation in await page.evaluate(VIOLATIONS)]
                if excess := await page.evaluate(OVERFLOW):
                    found.append(f"{path} at {width}: {excess} pixels too wide")
    assert not found, "\n".join(found)


@pytest.mark.skipif(not AXE.exists(), reason="needs axe-core: npm install axe-core, FARRIER_TEST_AXE=…/axe.min.js")
@pytest.mark.parametrize("width", [1024, 390])
async def test_the_page_of_a_run_and_the_notes_of_a_brake_violate_no_rule_of_axe(
    url: str, conn: Connection, width: int
) -> None:
    await without_guards(conn, BRAKE)
    async with browser() as opened:
        page = await opened.new_page(viewport={"width": width, "height": 844}, extra_http_headers=WITH_TOKEN)
        await page.goto(f"{url}/act?action=pause&which=all&site=s1")
        await page.get_by_label("reason (required)").fill("firmware")
        await page.get_by_label("at most in progress").fill("2")
        await page.get_by_role("button", name="Submit pause for 10 nodes").click()
        await page.wait_for_selector("text=2 in progress, 8 not begun")
        assert await page.get_by_role("progressbar").get_attribute("max") == "10"
        found = []
        for path in (page.url, f"{url}/", f"{url}/controllers"):
            await page.goto(path)
            await page.evaluate(await anyio.Path(AXE).read_text(encoding="utf-8"))
            found += [f"{path}: {violation}" for violation in await page.evaluate(VIOLATIONS)]
            assert await page.evaluate(OVERFLOW) == 0, path
    assert not found, "\n".join(found)


@pytest.mark.parametrize("width", [1280, 1130, 1024, 390])
async def test_no_column_cuts_a_name_a_state_or_a_time_in_two(url: str, width: int) -> None:
    found = []
    async with browser() as opened:
        page = await opened.new_page(viewport={"width": width, "height": 844})
        for path in (
            "/",
            "/resources",
            "/resources/maas_region",
            "/controllers",
            "/monitors",
            "/history",
            "/nodes/node-1",
        ):
            await page.goto(url + path)
            found += [f"{path}: {text}" for text in await page.evaluate(CUT)]
            if excess := await page.evaluate(OVERFLOW):
                found.append(f"{path}: {excess} pixels too wide")
    assert not found, "\n".join(found)


async def test_pages_load_without_an_error_in_the_console(url: str) -> None:
    said: list[str] = []
    async with browser() as opened:
        page = await opened.new_page()
        page.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: said.append(str(error)))
        for path in (
            path for path in PATHS if not any(each in path for each in ("nosuch", "/act", "/create/", "/brake-lift"))
        ):
            await page.goto(url + path)
    assert not said


async def test_a_page_is_used_by_keyboard(url: str) -> None:
    async with browser() as opened:
        page = await opened.new_page()
        await page.goto(url)
        await page.keyboard.press("Tab")
        assert await focused(page) == "Skip to the content"
        await page.keyboard.press("Enter")
        await page.keyboard.press("/")
        await page.keyboard.type("gpu-12")
        await page.keyboard.press("Enter")
        await page.wait_for_url("**q=gpu-12**")
        assert await page.locator("main td a[href^='/nodes/']").all_inner_texts() == ["gpu-12"]


@pytest.mark.parametrize("width", [1280, 640, 390])
async def test_each_element_that_gets_the_focus_is_visible(url: str, width: int) -> None:
    hidden = []
    async with browser() as opened:
        page = await opened.new_page(viewport={"width": width, "height": 844})
        await page.goto(f"{url}/?q=gpu-1*")
        for _ in range(40):  # enough for the filters, the headings and the first rows
            await page.keyboard.press("Tab")
            hidden += [element for element in [await page.evaluate(HIDDEN_FOCUS)] if element]
    assert not hidden, "\n".join(hidden)


async def test_each_table_has_a_name_for_screen_readers(url: str) -> None:
    nameless = []
    async with browser() as opened:
        page = await opened.new_page()
        for path in PATHS:
            await page.goto(url + path)
            nameless += [
                path for line in (await page.locator("main").aria_snapshot()).splitlines() if "- table:" in line
            ]
    assert nameless == []


@pytest.mark.parametrize(("width", "height"), [(1440, 900), (1024, 768)])
async def test_each_node_of_the_inventory_is_one_line_of_a_table(url: str, width: int, height: int) -> None:
    async with browser() as opened:
        page = await opened.new_page(viewport={"width": width, "height": height}, extra_http_headers=WITH_TOKEN)
        await page.goto(url)
        rows = await page.evaluate(ROWS)
    assert len(rows) == 31
    assert {row["display"] for row in rows} == {"table-row"}
    assert (
        max(row["height"] for row in rows) < 40
    )  # a line has 23 pixels, its box for ticking 25, and both have a margin
    assert sum(row["bottom"] <= height for row in rows) >= 10


@pytest.mark.parametrize("may_act", [True, False])
async def test_the_first_node_is_visible_on_a_phone_without_scrolling(
    url: str, conn: Connection, may_act: bool
) -> None:
    await without_guards(conn, BRAKE)
    async with browser() as opened:
        headers = WITH_TOKEN if may_act else None
        page = await opened.new_page(viewport={"width": 390, "height": 844}, extra_http_headers=headers)
        await page.goto(url)
        assert "holds 8 nodes" in await page.locator("#top").inner_text()
        assert (await page.evaluate(ROWS))[0]["bottom"] <= 844
        assert await page.evaluate(OVERFLOW) == 0


async def test_ticked_nodes_stay_ticked_while_the_page_follows_the_database(
    url: str, conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lists, "LIVE_SECONDS", 1)
    async with browser() as opened:
        page = await opened.new_page(extra_http_headers=WITH_TOKEN)
        await page.goto(f"{url}/?q=gpu-1*")
        await page.get_by_label("choose gpu-12").check()
        await conn.execute("UPDATE farrier.nodes SET status = 'quarantined' WHERE name = 'gpu-13'")
        await page.wait_for_selector("tr:has-text('gpu-13') .quarantined")
        assert await page.get_by_label("choose gpu-12").is_checked()
        await page.get_by_label("choose all nodes of this page").check()
        await page.get_by_label("choose gpu-12").uncheck()
        await page.get_by_label("action").select_option("pause")
        await page.get_by_role("button", name="for ticked nodes").click()
        await page.wait_for_selector("h1:has-text('pause 9 nodes')")


@pytest.mark.parametrize("width", [1280, 390])
async def test_a_table_is_sorted_by_its_headings_at_any_width(url: str, width: int) -> None:
    async with browser() as opened:
        page = await opened.new_page(viewport={"width": width, "height": 844})
        await page.goto(url)
        await page.get_by_role("columnheader", name="rack").get_by_role("link").click()
        await page.wait_for_url("**sort=rack**")


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_placeholders_have_the_colour_of_other_dim_text(url: str, scheme: str) -> None:
    async with browser() as opened:
        page = await opened.new_page(color_scheme=scheme)  # type: ignore[arg-type]
        await page.goto(url)
        placeholder, dim = await page.evaluate(PLACEHOLDER)
    assert placeholder == dim


async def test_an_open_page_follows_the_database_and_keeps_focus_and_open_details(
    url: str, conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "LIVE_SECONDS", 1)
    async with browser() as opened:
        page = await opened.new_page()
        await page.goto(f"{url}/nodes/node-1")
        summary = page.locator("details summary").first
        await summary.click()
        await page.locator("a[href^='/history?']").focus()
        await conn.execute("UPDATE farrier.nodes SET status = 'quarantined' WHERE name = 'node-1'")
        await page.wait_for_selector("h1 .quarantined")
        assert await page.locator("details[open]").count() == 1
        assert await focused(page) == "Complete history, with filters"


async def test_a_page_that_is_not_current_gives_the_reason_and_the_time(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lists, "LIVE_SECONDS", 1)
    async with browser() as opened:
        page = await opened.new_page()
        await page.goto(url)
        await page.route("**/", lambda route: route.fulfill(status=503, body="<main><h1>503</h1><p>no database</main>"))
        await page.wait_for_selector("#live.late")
        text = await page.locator("#live").inner_text()
        assert re.fullmatch(r"not live since \d\d:\d\d:\d\d UTC: no database", text)
        for fails in (lambda route: route.abort(), lambda _route: None):  # the second leaves the request open
            await page.unroute("**/")
            await page.wait_for_selector("#live:not(.late)")
            await page.route("**/", fails)
            await page.wait_for_selector("#live.late")
            assert (await page.locator("#live").inner_text()).endswith("the server does not respond")


async def test_a_page_that_does_not_change_because_text_is_selected_is_not_called_live(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lists, "LIVE_SECONDS", 1)
    async with browser() as opened:
        page = await opened.new_page()
        await page.goto(url)
        await page.evaluate("() => getSelection().selectAllChildren(document.querySelector('main'))")
        stale = re.compile(r"^not live since \d\d:\d\d:\d\d UTC: text is selected$")
        await page.locator("#live", has_text=stale).wait_for()
        await page.evaluate("() => getSelection().removeAllRanges()")
        await page.locator("#live", has_text=re.compile("^live$")).wait_for()


async def test_the_button_of_a_live_page_is_pressed_until_a_reader_stops_the_updates(url: str) -> None:
    async with browser() as opened:
        page = await opened.new_page()
        await page.goto(url)
        assert await page.get_by_role("button", name="live", pressed=True).count() == 1
        await page.get_by_role("button", name="live").click()
        assert await page.get_by_role("button", name="live: paused", pressed=False).count() == 1


@pytest.mark.parametrize("width", [1440, 1280, 1210, 390, 320])
async def test_long_names_and_values_make_no_page_wider_than_its_window(url: str, conn: Connection, width: int) -> None:
    await conn.execute(LONG)
    found = []
    async with browser() as opened:
        page = await opened.new_page(viewport={"width": width, "height": 844})
        for path in ("/", "/?q=gpu-1*", "/history", f"/nodes/{'x' * 253}", f"/nodes/{'y' * 253}"):
            await page.goto(url + path)
            if excess := await page.evaluate(OVERFLOW):
                found.append(f"{path[:9]}: {excess} pixels too wide")
    assert not found, "\n".join(found)


async def focused(page: Page) -> str:
    text: str = await page.evaluate("() => document.activeElement.innerText")
    return text
