"""Commands with `--api`: they print over HTTP what they print with the database."""

from __future__ import annotations

import re
import shlex
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
import structlog.testing

from farrier.client import remote as remote_api
from farrier.errors import ExitCode
from farrier.web.server.access import Access
from farrier.web.server.backend import Backend
from farrier.web.server.serving import serving
from tests.integration.cli.conftest import Prompt
from tests.integration.test_web_access import CI, TOKENS
from tests.support import pg
from tests.support.monitors import grant, report
from tests.support.site import Site
from tests.support.web import TOKEN, closed_site, open_site

READING = [
    ("node", "list"),
    ("node", "list", "gpu-*", "-l", "row=4", "--status", "enrolling"),
    ("node", "list", "--failed"),
    ("node", "show", "gpu-1"),
    ("node", "why", "gpu-1"),
    ("node", "history", "gpu-1"),
    ("node", "history", "--all", "gpu-2"),
    ("history", "list", "--layer", "status", "--since", "60d"),
    ("history", "list", "--since", "400d", "--at-least", "30d"),
    ("intent", "list"),
    ("intent", "get", "1"),
    ("sla", "breaches"),
    ("task", "list", "--status", "queued"),
    ("kind", "list"),
    ("monitor", "list"),
    ("monitor", "refusals"),
    ("monitor", "refusals", "am", "--limit", 1),
    ("controllers",),
    ("segment", "list"),
    ("segment", "show", "net-1"),
    ("segment", "addresses", "net-1"),
    ("segment", "history", "net-1"),
    ("resource", "list", "network_segment", "net-*"),
    ("resource", "why", "network_segment", "net-1"),
    ("resource", "list", "node"),
    ("resource", "show", "node", "gpu-1"),
]

# Left out of comparisons, because time passes between two commands.
TIMES = re.compile(r'"now": "[^"]*"|"above": ?[0-9.]+')
# Ages of days and hours are printed alike by two commands.
AGE = timedelta(days=40, hours=3, minutes=20)


@pytest.fixture
async def remote(backend: Backend, tmp_path: Path) -> AsyncIterator[Prompt]:
    """Runs commands whose environment names the API of a served site, and no database."""
    token = tmp_path / "token"
    token.write_text(f"{TOKEN}\n")
    site = open_site(backend, Access(TOKENS))
    async with serving(site.app, host="127.0.0.1", port=0) as url:
        yield Prompt(FARRIER_CLIENT_API=url, FARRIER_CLIENT_TOKEN_FILE=str(token))


@pytest.fixture
def as_ci(remote: Prompt, tmp_path: Path) -> Prompt:
    """Runs commands with the token of the client `ci`, which does not have the scope `admin`."""
    (tmp_path / "ci").write_text(CI)
    remote.environment["FARRIER_CLIENT_TOKEN_FILE"] = str(tmp_path / "ci")
    return remote


async def test_reading_commands_print_the_same_as_with_the_database(
    farrier: Prompt, remote: Prompt, db: pg.Database
) -> None:
    await farrier("node", "add", "gpu-1", "--site", "ams", "--label", "row=4", "--bmc-address", "10.0.0.1")
    await farrier("node", "add", "gpu-2")
    await farrier("intent", "submit", "gpu-1", "manage")
    await farrier("segment", "add", "net-1", "--site", "ams", "--prefixes", "192.0.2.0/24", "--vlan", 12)
    async with db.connect() as conn:
        await grant(conn, ids=["gpu/*"])
        await report(conn, *({"node": node, "id": "gpu/hot"} for node in ("gpu-1", "gpu-8", "gpu-9")))
    await db.advance(AGE)
    differing = []
    for command in READING:
        for words in (command, (*command, "--json")):
            here, there = [TIMES.sub("", (await ask(*words)).out) for ask in (farrier, remote)]
            if here != there:
                differing.append((words, here, there))
    assert differing == []


async def test_all_of_a_history_is_the_same_and_includes_a_change_made_just_now(
    farrier: Prompt, remote: Prompt, db: pg.Database
) -> None:
    await farrier("node", "add", "gpu-1")
    await db.advance(AGE)
    async with db.connect() as slow, slow.transaction():
        await slow.execute("SELECT farrier.register_node('gpu-2')")  # until its end, an older change may become visible
        await farrier("node", "add", "gpu-3")
        for words, names in ((("--all",), ["gpu-1", "gpu-3"]), (("gpu-3", "--all"), ["gpu-3"])):
            here, there = [(await ask("node", "history", *words, "--json")).json for ask in (farrier, remote)]
            assert here == there
            assert [change["name"] for change in here] == [name for name in names for _ in range(3)]
            assert len({change["key"] for change in here}) == len(here)


@pytest.mark.usefixtures("site")
async def test_nodes_are_registered_and_intents_submitted_over_http(remote: Prompt) -> None:
    assert (await remote("node", "add", "gpu-2", "--site", "ams", "--json")).json["name"] == "gpu-2"
    assert (await remote("node", "bootstrap", "gpu-2", "--json")).json["bootstrap_token"]
    said = await remote("intent", "submit", "gpu-1", "pause", "reason=to look at it", "--wait")
    assert "is accepted" in said.out
    await remote("intent", "submit", "gpu-1", "unpause", "--wait")
    refused = await remote("intent", "submit", "gpu-1", "manage", "--wait", ends=ExitCode.REFUSED)
    assert refused.err.startswith("farrier: intent ")
    await remote("enqueue", "node", "gpu-1")


@pytest.mark.parametrize(
    ("period", "printed"),
    [("90m", "the brake of site ams is lifted for 1h 30m"), ("0s", "the brake of site ams applies again")],
)
async def test_a_lift_of_a_brake_is_reported_with_its_period_or_its_end(
    farrier: Prompt, remote: Prompt, db: pg.Database, period: str, printed: str
) -> None:
    for ask in (farrier, remote):
        await lift_brake(db)
        assert (await ask("site", "unbrake", "ams", "--reason", "x", "--for", period)).out == f"{printed}\n"


ACTING = [
    ("node", "pause", "gpu-1", "--reason", "x", "--no-wait"),
    ("node", "set", "gpu-1", "rack=r7", "--no-wait"),
    ("intent", "submit", "gpu-1", "unpause"),
    ("segment", "add", "net-1", "--site", "ams", "--prefixes", "192.0.2.0/24", "--vlan", 12),
    ("resource", "intent", "network_segment", "net-2", "create", "site=ams", "prefixes=198.51.100.0/24", "vlan=13"),
    ("resource", "act", "network_segment", "delete", "net-1", "--no-wait"),
    ("site", "unbrake", "ams", "--reason", "x"),
]


async def authors(db: pg.Database) -> list[str]:
    """The clients of all intents, and the last client that lifted the brake."""
    async with db.connect() as conn:
        rows = await conn.fetch("""
            SELECT requested_by FROM farrier.intents UNION ALL SELECT requested_by FROM farrier.resource_intents
            UNION ALL (SELECT requested_by FROM farrier.brake_lifts ORDER BY id DESC LIMIT 1)""")
    return [row["requested_by"] for row in rows]


async def lift_brake(db: pg.Database) -> None:
    async with db.connect() as conn:
        await conn.execute("""
            INSERT INTO farrier.brake_lifts (site, until, reason, requested_by)
            VALUES ('ams', farrier.now() + interval '1 hour', 'x', 'an earlier client')""")


async def test_an_action_over_http_has_the_name_of_the_token(as_ci: Prompt, db: pg.Database) -> None:
    async with db.connect() as conn:
        await conn.execute("SELECT farrier.register_node('gpu-1')")
    await lift_brake(db)
    for words in ACTING:
        await as_ci(*words)
    assert await authors(db) == ["ci"] * len(ACTING)


@pytest.mark.parametrize(("option", "name"), [((), "ann"), (("--requested-by", "bob"), "bob")])
async def test_an_action_through_the_database_has_the_name_of_the_user_or_the_given_name(
    farrier: Prompt, db: pg.Database, option: tuple[str, ...], name: str
) -> None:
    farrier.environment["LOGNAME"] = "ann"
    await farrier("node", "add", "gpu-1")
    await lift_brake(db)
    for words in ACTING:
        await farrier(*words, *option)
    assert await authors(db) == [name] * len(ACTING)


async def test_another_name_than_that_of_the_token_is_refused(as_ci: Prompt, db: pg.Database) -> None:
    await lift_brake(db)
    said = await as_ci(*ACTING[-1], "--requested-by", "bob", ends=ExitCode.REFUSED)
    assert "requested_by must be the name of the token, ci, not 'bob'" in said.err
    assert await authors(db) == ["an earlier client"]


async def test_a_node_is_registered_with_a_token_that_the_server_issues(remote: Prompt, db: pg.Database) -> None:
    said = (await remote("node", "add", "gpu-1", "--bootstrap", "--json")).json
    async with db.connect() as conn:
        assert await conn.fetchval("SELECT node FROM farrier.enroll_agent($1)", said["bootstrap_token"]) == said["id"]
    assert (await remote("node", "add", "gpu-2", "--bootstrap")).out.splitlines()[1].startswith("bootstrap token: fbt_")
    assert "bootstrap" not in (await remote("node", "add", "gpu-3")).out


async def test_a_command_that_needs_the_database_is_refused_with_the_option_dsn(remote: Prompt) -> None:
    refused = await remote("history", "prune", "--older-than", "365d", ends=ExitCode.USAGE)
    assert refused.err == "farrier: this command needs a connection to the database; use --dsn instead of --api\n"


@pytest.mark.parametrize(
    ("words", "ends"),
    [
        ("resource intent nope x delete --wait --until gone", ExitCode.USAGE),
        ("task list ''", ExitCode.REFUSED),
        ("history list --to activ", ExitCode.USAGE),
    ],
)
async def test_a_command_is_refused_as_with_the_database(
    farrier: Prompt, remote: Prompt, words: str, ends: ExitCode
) -> None:
    here, there = [await ask(*shlex.split(words), ends=ends) for ask in (farrier, remote)]
    assert here == there


async def test_an_answer_in_the_first_response_is_reported_like_a_later_one(site: Site, remote: Prompt) -> None:
    words = ("intent", "submit", "gpu-1", "manage", "--idempotency-key", "k", "--wait")
    first, again = [await remote(*words, ends=ExitCode.REFUSED) for _ in range(2)]
    assert again.err == first.err


async def test_daemon_and_clients_may_share_their_settings(farrier: Prompt, remote: Prompt) -> None:
    both = Prompt(**{name: value for each in (farrier, remote) for name, value in each.environment.items() if value})
    await both("config", "check")
    assert (await both("db", "check")).out
    refused = await both("db", "check", "--api", remote.environment["FARRIER_CLIENT_API"], ends=ExitCode.USAGE)
    assert refused.err == "farrier: this command needs a connection to the database; use --dsn instead of --api\n"


@pytest.mark.parametrize(
    ("words", "ends", "text"),
    [
        (("--api", "farrier.example"), ExitCode.USAGE, "expected the URL of farrier"),
        (("--api", "http://127.0.0.1:9"), ExitCode.DATABASE_UNREACHABLE, "cannot reach farrier at http://127.0.0.1:9"),
        (("--api", "http://a", "--dsn", "postgresql://b"), ExitCode.USAGE, "--api connects to the HTTP API"),
    ],
)
async def test_a_wrong_api_address_is_reported_in_one_line(
    nowhere: Prompt, words: tuple[str, ...], ends: ExitCode, text: str
) -> None:
    refused = await nowhere("node", "list", *words, ends=ends)
    assert text in refused.err
    assert "Traceback" not in refused.err


async def test_a_server_without_its_database_ends_with_the_code_of_an_unreachable_database(nowhere: Prompt) -> None:
    async with serving(closed_site().app, host="127.0.0.1", port=0) as url:
        said = await nowhere("node", "list", "--api", url, ends=ExitCode.DATABASE_UNREACHABLE)
    assert "the database cannot be reached now; /readyz of this server reports what it waits for" in said.err


async def test_a_token_file_that_cannot_be_read_is_named(remote: Prompt, tmp_path: Path) -> None:
    remote.environment["FARRIER_CLIENT_TOKEN_FILE"] = str(tmp_path / "none")
    refused = await remote("node", "list", ends=ExitCode.USAGE)
    assert f"client.token_file: cannot read {tmp_path / 'none'}" in refused.err


async def test_a_context_names_an_api(farrier: Prompt, remote: Prompt, tmp_path: Path) -> None:
    await farrier("node", "add", "gpu-1")
    url = remote.environment.pop("FARRIER_CLIENT_API")
    remote.environment["XDG_CONFIG_HOME"] = str(tmp_path)
    await remote("context", "add", "far", "--api", url)
    assert [node["name"] for node in (await remote("node", "list", "--json")).json] == ["gpu-1"]


@pytest.mark.parametrize("around", ["{}", "{}\n", "\ufeff{}\n", " {} \r\n\r\n"])
def test_the_token_in_a_file_may_have_white_space_or_a_byte_order_mark_around_it(tmp_path: Path, around: str) -> None:
    (tmp_path / "token").write_text(around.format("t0k3n"), encoding="utf-8", newline="")
    with structlog.testing.capture_logs() as logged:
        assert remote_api.token_of(str(tmp_path / "token")) == "t0k3n"
    assert bool(logged) == (around not in ("{}", "{}\n"))
