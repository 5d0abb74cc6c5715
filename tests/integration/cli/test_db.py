"""`farrier db`, and how every command finds its database or reports why it cannot."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from farrier.errors import ExitCode
from farrier.io.connections.embedded import EmbeddedServer
from tests.integration.cli.conftest import Prompt
from tests.support import pg


@pytest.fixture
def empty(empty_db: pg.Database) -> Prompt:
    """Runs commands against a database that has no schema yet."""
    return Prompt(FARRIER_DATABASE_DSN=empty_db.dsn)


async def test_a_migration_makes_the_schema_once_and_the_check_confirms_it(empty: Prompt) -> None:
    missing = await empty("db", "check", ends=ExitCode.FAILED)
    assert "no farrier schema" in missing.err
    assert "farrier db migrate" in missing.err
    assert "version 1" in (await empty("db", "migrate")).out
    assert "no migration is needed" in (await empty("db", "migrate")).out
    status = (await empty("db", "check", "--json")).json
    assert status["found"] == status["needed"] > 0
    await empty("node", "add", "gpu-1")  # the migration stored the model, so its first values are allowed


async def test_a_plan_of_a_new_database_counts_what_would_be_made_and_makes_nothing(empty: Prompt) -> None:
    planned = (await empty("db", "migrate", "--plan")).out.splitlines()
    assert any(re.fullmatch(r"make +\d+ functions", line) for line in planned)
    assert planned[-1] == "a new database without replicas"
    assert not (await empty("db", "check", ends=ExitCode.FAILED)).out
    done = (await empty("db", "migrate")).out
    assert re.search(r"^made +\d+ functions, \d+ views, \d+ triggers, the rights of 7 roles$", done, re.MULTILINE)


OLD = "CREATE OR REPLACE FUNCTION farrier.old() RETURNS integer LANGUAGE sql AS $$ SELECT 1 $$;"
# A function that the previous release had.
HAS_OLD = f"""
    {OLD}
    INSERT INTO farrier.schema_objects
    SELECT 'function', 'old', '{OLD}', md5(pg_get_functiondef('farrier.old'::regproc));
    UPDATE farrier.schema_set SET hash = 'of that release', release = '0.0.9';
"""
EDIT = "CREATE OR REPLACE FUNCTION farrier.digest(secret text) RETURNS bytea LANGUAGE sql IMMUTABLE RETURN ''::bytea"


async def test_a_plan_lists_each_object_and_whether_replicas_can_go_on(farrier: Prompt, db: pg.Database) -> None:
    assert (await farrier("db", "migrate", "--plan")).out == "no migration is needed\n"
    async with db.connect() as conn:
        await conn.execute(EDIT)
        planned = (await farrier("db", "migrate", "--plan")).out.splitlines()
        assert [line.split() for line in planned[1:-1]] == [["replace", "function", "digest", "edited", "by", "hand"]]
        assert planned[-1] == "replicas of farrier 0.1.0 can continue during the migration"
        await conn.execute(HAS_OLD)
    planned = (await farrier("db", "migrate", "--plan")).out.splitlines()
    assert planned[-2].split() == ["drop", "function", "old"]
    assert planned[-1] == "stop replicas of farrier 0.0.9 first: function old is dropped"
    assert [line.split() for line in (await farrier("db", "migrate")).out.splitlines()] == [
        ["replaced", "function", "digest"],
        ["dropped", "function", "old"],
        ["edited", "by", "hand", "before", "function", "digest"],
    ]


async def test_a_plan_is_printed_as_json(farrier: Prompt, db: pg.Database) -> None:
    async with db.connect() as conn:
        await conn.execute(HAS_OLD)
    planned = (await farrier("db", "migrate", "--plan", "--json")).json
    assert planned["would"]["dropped"] == ["function old"]
    assert (planned["release"], planned["replicas_go_on"]) == ("0.0.9", False)
    assert planned["stops"] == ["function old is dropped"]
    assert (await farrier("db", "migrate", "--json")).json == planned["would"]


async def test_a_plan_with_an_obstacle_is_printed_and_ends_as_the_migration_does(
    farrier: Prompt, db: pg.Database
) -> None:
    async with db.connect() as conn:
        await conn.execute(f"{HAS_OLD}; CREATE SCHEMA theirs; CREATE VIEW theirs.v AS SELECT farrier.old()")
    planned = await farrier("db", "migrate", "--plan", ends=ExitCode.REFUSED)
    assert "blocked by: view theirs.v depends on function old" in planned.out
    refused = await farrier("db", "migrate", ends=ExitCode.REFUSED)
    assert planned.err.splitlines()[-1] == refused.err.splitlines()[-1]


async def test_a_command_on_a_database_without_a_schema_says_what_to_run(empty: Prompt) -> None:
    assert "farrier db migrate" in (await empty("node", "list", ends=ExitCode.FAILED)).err


async def test_a_newer_schema_is_refused_with_a_separate_exit_code(farrier: Prompt, db: pg.Database) -> None:
    async with db.connect() as conn:
        await conn.execute("INSERT INTO farrier.schema_steps (version, name, checksum) VALUES (9999, 'new', '')")
    for command in (
        ["db", "check"],
        ["db", "migrate"],
        ["db", "migrate", "--plan"],
        ["node", "list"],
        ["intent", "submit", "gpu-1", "drain"],
    ):
        assert "upgrade farrier" in (await farrier(*command, ends=ExitCode.SCHEMA_TOO_NEW)).err


async def test_an_object_edited_by_hand_fails_the_check_until_the_next_migration(
    farrier: Prompt, db: pg.Database
) -> None:
    async with db.connect() as conn:
        await conn.execute("""
            CREATE OR REPLACE FUNCTION farrier.api_version(OUT api_min integer, OUT api_max integer)
                LANGUAGE sql AS 'SELECT 1, 2';
            ALTER TABLE farrier.nodes DISABLE TRIGGER guard_nodes
        """)
    named = ["function api_version", "trigger nodes.guard_nodes"]
    refused = await farrier("db", "check", ends=ExitCode.FAILED)
    assert f"edited or dropped by hand in the database: {', '.join(named)}" in refused.err
    assert "farrier db migrate" in refused.err
    assert (await farrier("db", "check", "--json", ends=ExitCode.FAILED)).json["edited"] == named
    await farrier("node", "list")  # other commands work all the same
    await farrier("db", "migrate")
    assert "as this program requires" in (await farrier("db", "check")).out


async def test_after_a_server_upgrade_the_check_finds_missing_but_no_edited_objects(
    farrier: Prompt, db: pg.Database
) -> None:
    async with db.connect() as conn:
        await conn.execute(f"UPDATE farrier.schema_set SET server = server - 1; {EDIT}")
        checked = (await farrier("db", "check")).out
        assert "to find objects that were edited by hand, run farrier db migrate, and then repeat this check" in checked
        assert (await farrier("db", "check", "--json")).json["comparable"] is False
        await conn.execute("DROP TRIGGER guard_nodes ON farrier.nodes")
    refused = await farrier("db", "check", ends=ExitCode.FAILED)
    assert "edited or dropped by hand in the database: trigger nodes.guard_nodes;" in refused.err
    assert "so this check could find only missing objects" in refused.out
    await farrier("db", "migrate")
    assert "so this check could find only missing objects" not in (await farrier("db", "check")).out


async def test_each_migration_gives_every_role_its_rights(farrier: Prompt, db: pg.Database) -> None:
    async with db.connect() as conn:
        await conn.execute("REVOKE ALL ON farrier.intents FROM farrier_reader")
        await conn.execute("REVOKE USAGE ON SCHEMA farrier FROM farrier_agent")
    assert (await farrier("db", "migrate")).out == "no migration is needed\n"
    async with db.connect() as conn:
        assert await conn.fetchval("SELECT has_table_privilege('farrier_reader', 'farrier.intents', 'SELECT')")
        assert await conn.fetchval("SELECT has_schema_privilege('farrier_agent', 'farrier', 'USAGE')")


@pytest.mark.parametrize(
    ("lose", "there"),
    [
        (
            "DROP TRIGGER enter_state ON farrier.network_segments",
            "SELECT count(*) > 0 FROM pg_trigger WHERE tgrelid = 'network_segments'::regclass AND tgname ~ '^enter_'",
        ),
        (
            "DROP INDEX farrier.network_segment_live_name",
            "SELECT to_regclass('farrier.network_segment_live_name') IS NOT NULL",
        ),
    ],
    ids=["trigger", "index"],
)
async def test_each_migration_restores_what_a_built_in_kind_lacks_although_the_check_passes(
    farrier: Prompt, db: pg.Database, lose: str, there: str
) -> None:
    async with db.connect() as conn:
        assert await conn.fetchval(there)
        await conn.execute(lose)
        await farrier("db", "check")
        await farrier("db", "migrate")
        assert await conn.fetchval(there)


async def test_a_user_with_createrole_may_run_db_roles_at_any_time(farrier: Prompt, db: pg.Database) -> None:
    async with db.connect() as conn:
        name = f"maker_in_{await conn.fetchval('SELECT current_database()')}"
        await conn.execute(f"CREATE ROLE {name} CREATEROLE")
        try:
            maker = Prompt(FARRIER_DATABASE_DSN=f"{db.dsn}&options=-c%20role%3D{name}")
            done = (await maker("db", "roles")).out
            assert "farrier_reader" in done
            assert "farrier db migrate grants their rights" in done
        finally:
            await conn.execute(f"DROP ROLE {name}")


async def test_the_readers_role_may_read_and_a_refusal_names_the_required_role(
    farrier: Prompt, db: pg.Database
) -> None:
    await farrier("node", "add", "gpu-1")
    reader = Prompt(FARRIER_DATABASE_DSN=f"{db.dsn}&options=-c%20role%3Dfarrier_reader")
    for command in (
        ["node", "list"],
        ["node", "show", "gpu-1"],
        ["node", "why", "gpu-1"],
        ["node", "history", "gpu-1"],
    ):
        assert "gpu-1" in (await reader(*command)).out
    await reader("task", "list")
    await reader("sla", "breaches")
    refused = await reader("node", "add", "gpu-2", ends=ExitCode.REFUSED)
    assert "permission denied" in refused.err
    assert "farrier_intents" in refused.err


@pytest.mark.parametrize("command", [("db", "check"), ("db", "migrate"), ("kind", "remove", "crate")], ids=" ".join)
async def test_a_schema_command_without_the_right_names_the_owner_of_the_schema(
    farrier: Prompt, db: pg.Database, command: tuple[str, ...]
) -> None:
    agent = Prompt(FARRIER_DATABASE_DSN=f"{db.dsn}&options=-c%20role%3Dfarrier_agent")
    refused = await agent(*command, ends=ExitCode.REFUSED)
    assert "permission denied" in refused.err
    assert "the owner of the schema farrier" in refused.err
    assert "farrier_intents" not in refused.err


@pytest.mark.parametrize("role", ["farrier_controller", "farrier_reader"])
async def test_the_roles_of_the_daemon_and_of_operators_may_check_the_schema(role: str, db: pg.Database) -> None:
    checking = Prompt(FARRIER_DATABASE_DSN=f"{db.dsn}&options=-c%20role%3D{role}")
    assert "as this program requires" in (await checking("db", "check")).out


async def test_the_intents_role_may_register_nodes_and_insert_intents(farrier: Prompt, db: pg.Database) -> None:
    asking = Prompt(FARRIER_DATABASE_DSN=f"{db.dsn}&options=-c%20role%3Dfarrier_intents")
    await asking("node", "add", "gpu-1")
    await asking("intent", "submit", "gpu-1", "quarantine", "reason=smoke")
    await asking("enqueue", "node", "gpu-1")
    late = await asking("intent", "submit", "gpu-1", "release", "--wait", "--timeout", "1s", ends=ExitCode.FAILED)
    assert "not answered" in late.err


async def test_an_unreachable_server_is_named_without_its_password(nowhere: Prompt) -> None:
    gone = "postgresql://me:hunter2@127.0.0.1:1/farrier"
    for command in (["node", "list"], ["db", "migrate"], ["db", "check"], ["intent", "submit", "gpu-1", "drain"]):
        failed = await nowhere(*command, "--dsn", gone, ends=ExitCode.DATABASE_UNREACHABLE)
        assert "cannot reach PostgreSQL at postgresql://me@127.0.0.1:1/farrier" in failed.err
        assert "hunter2" not in failed.err
        assert not failed.out


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--dsn", "nonsense"], "cannot read the DSN"),
        (["--dsn", "postgresql://a", "--embedded", "b"], "not both"),
        (["--config", "/nonexistent.toml"], "cannot read /nonexistent.toml"),
    ],
)
async def test_an_invalid_dsn_or_directory_is_a_usage_error(nowhere: Prompt, options: list[str], text: str) -> None:
    assert text in (await nowhere("node", "list", *options, ends=ExitCode.USAGE)).err


async def test_a_command_without_a_database_creates_none(tmp_path: Path) -> None:
    lost = Prompt(XDG_DATA_HOME=str(tmp_path))
    refused = await lost("node", "list", ends=ExitCode.USAGE)
    assert "use --dsn URL or --embedded DIR" in refused.err
    assert "FARRIER_DATABASE_DSN" in refused.err
    assert not os.listdir(tmp_path)


async def test_the_option_overrides_the_environment_which_overrides_the_file(db: pg.Database, tmp_path: Path) -> None:
    file = tmp_path / "farrier.toml"
    file.write_text('[database]\ndsn = "nonsense"\n')
    gone = "postgresql://127.0.0.1:1/x"
    await Prompt(FARRIER_CONFIG=str(file))("node", "list", ends=ExitCode.USAGE)
    await Prompt(FARRIER_CONFIG=str(file), FARRIER_DATABASE_DSN=gone)(
        "node", "list", ends=ExitCode.DATABASE_UNREACHABLE
    )
    await Prompt(FARRIER_CONFIG=str(file), FARRIER_DATABASE_DSN=gone)("node", "list", "--dsn", db.dsn)


async def test_the_schema_is_printed_without_a_database_whole_or_one_topic(nowhere: Prompt) -> None:
    whole = (await nowhere("db", "schema")).out
    assert "CREATE TABLE farrier.nodes (" in whole
    assert "GRANT EXECUTE ON FUNCTION farrier.claim_work" in whole
    tasks = (await nowhere("db", "schema", "--topic", "tasks")).out
    assert "FUNCTION farrier.take_task(" in tasks
    assert "CREATE TABLE farrier.nodes (" not in tasks
    unknown = await nowhere("db", "schema", "--topic", "cheese", ends=ExitCode.USAGE)
    assert "no topic 'cheese'" in unknown.err


@pytest.fixture
def directory() -> Iterator[Path]:
    """A directory for an embedded server; in /tmp, which the server's account can reach when root runs the tests."""
    place = Path(tempfile.mkdtemp(prefix="farrier-test-cli-"))
    yield place
    EmbeddedServer(place).stop()
    shutil.rmtree(place)


async def test_db_url_starts_the_embedded_server_and_prints_only_its_dsn(nowhere: Prompt, directory: Path) -> None:
    first = await nowhere("db", "url", "--embedded", directory)
    second = await nowhere("db", "url", "--embedded", directory)
    dsn = EmbeddedServer(directory).dsn
    assert first.out == second.out == f"{dsn}\n"
    assert EmbeddedServer(directory).is_running()
    # A command migrates an embedded database itself, and does not stop a server that it did not start.
    await nowhere("node", "add", "gpu-1", "--embedded", directory)
    assert "gpu-1" in (await nowhere("node", "list", "--dsn", dsn)).out
    assert EmbeddedServer(directory).is_running()


@pytest.mark.full
async def test_a_server_that_a_command_started_ends_with_it(nowhere: Prompt, directory: Path) -> None:
    await nowhere("node", "add", "gpu-1", "--embedded", directory)
    assert not EmbeddedServer(directory).is_running()


@pytest.mark.matrix(keep=1)
@pytest.mark.parametrize("command", [["db", "migrate"], ["db", "check"], ["node", "list"]], ids=" ".join)
async def test_an_embedded_schema_that_is_not_upgraded_is_refused_with_the_directory_to_remove(
    nowhere: Prompt, directory: Path, command: list[str]
) -> None:
    EmbeddedServer(directory).start()
    async with pg.Database(EmbeddedServer(directory).dsn).connect() as conn:
        await conn.execute("CREATE SCHEMA farrier; CREATE TABLE farrier.schema_migrations (version integer)")
    refused = await nowhere(*command, "--embedded", directory, ends=ExitCode.FAILED)
    assert f"remove the directory {directory};" in refused.err
    assert "DROP SCHEMA" not in refused.err


async def test_db_url_requires_a_database(nowhere: Prompt, db: pg.Database) -> None:
    assert "--embedded DIR" in (await nowhere("db", "url", ends=ExitCode.USAGE)).err
    assert (await nowhere("db", "url", "--dsn", db.dsn)).out == f"{db.dsn}\n"


async def test_a_dsn_may_be_in_a_file_for_every_command(nowhere: Prompt, db: pg.Database, tmp_path: Path) -> None:
    file = tmp_path / "dsn"
    file.write_text(f"{db.dsn}\n")
    reference = f"file:{file}"
    await nowhere("node", "add", "gpu-1", "--dsn", reference)
    assert [node["name"] for node in (await nowhere("node", "list", "--json", "--dsn", reference)).json] == ["gpu-1"]
    assert "as this program requires" in (await nowhere("db", "check", "--dsn", reference)).out
    assert (await nowhere("db", "url", "--dsn", reference)).out == f"{db.dsn}\n"
    assert (await nowhere("sla", "list", "--dsn", reference)).err == ""


@pytest.mark.parametrize("command", ["node list", "db check", "db url"])
async def test_a_file_with_a_dsn_that_cannot_be_read_is_named(nowhere: Prompt, command: str, tmp_path: Path) -> None:
    refused = await nowhere(*command.split(), "--dsn", f"file:{tmp_path}/dsn", ends=ExitCode.USAGE)
    assert refused.err == (
        f"farrier: database.dsn: credential file:{tmp_path}/dsn: cannot be read: No such file or directory\n"
    )
