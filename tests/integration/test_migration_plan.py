"""The plan of a migration: it changes nothing, the migration does what it lists, and it names obstacles."""

from __future__ import annotations

import msgspec
import pytest

from farrier import errors
from farrier.io.connections.pool import Connection
from farrier.io.schema import migrate
from farrier.io.schema import plan as schema_plan
from farrier.io.schema.files import Schema, TableFile
from tests.support import pg, toys
from tests.support.catalogs import catalogs
from tests.support.toys import GO_ON, SEEN, TABLE, f, planned_and_done, touch, trigger

conn, schema = toys.conn, toys.of_toy
STOP = "-- replicas: stop\nALTER TABLE farrier.toy ADD COLUMN colour text"


async def test_a_plan_for_an_empty_database_leaves_it_empty(conn: Connection) -> None:
    plan = await schema_plan.plan(conn, schema=schema({"one": "SELECT 1"}))
    assert plan.would.versions == (1,)
    assert "function one" in plan.would.made
    assert plan.release is None
    assert await conn.fetchval("SELECT to_regnamespace('farrier') IS NULL")


async def test_plan_and_migration_refuse_an_owner_who_cannot_create_a_missing_role(
    conn: Connection,
) -> None:
    await migrate.create_roles(conn)
    name = await conn.fetchval("SELECT current_database()")
    owner = f"owner_of_{name}"
    await conn.execute(f"CREATE ROLE {owner}; GRANT CREATE ON DATABASE {name} TO {owner}")
    await conn.execute(f"ALTER ROLE farrier_worker RENAME TO worker_of_{name}")
    await conn.execute(f"SET ROLE {owner}")
    try:
        for work in (schema_plan.plan, migrate.migrate):
            with pytest.raises(errors.RefusedByModel, match="farrier db roles"):
                await work(conn)
            assert await conn.fetchval("SELECT to_regnamespace('farrier') IS NULL")
    finally:
        await conn.execute(f"RESET ROLE; ALTER ROLE worker_of_{name} RENAME TO farrier_worker")
        await conn.execute(f"DROP OWNED BY {owner}; DROP ROLE {owner}")


async def test_a_plan_creates_no_role(conn: Connection) -> None:
    await migrate.create_roles(conn)
    name = await conn.fetchval("SELECT current_database()")
    await conn.execute(f"ALTER ROLE farrier_worker RENAME TO worker_of_{name}")
    try:
        await schema_plan.plan(conn)
        assert await conn.fetchval("SELECT to_regrole('farrier_worker') IS NULL")
    finally:
        await conn.execute(f"ALTER ROLE worker_of_{name} RENAME TO farrier_worker")


@pytest.mark.parametrize("steps", [(), (GO_ON,)], ids=["baseline", "baseline that contains a step"])
async def test_a_new_database_is_made_as_planned(conn: Connection, steps: tuple[str, ...]) -> None:
    wanted = schema({"one": "SELECT 1"}, {"seen": SEEN}, steps=steps)
    wanted = msgspec.structs.replace(wanted, tables=(TableFile("toys", TABLE.replace(")", ", age integer)")),))
    assert (await planned_and_done(conn, wanted)).steps == ()


async def test_a_plan_changes_nothing(conn: Connection) -> None:
    await migrate.migrate(conn, schema=schema({"one": "SELECT 1", "two": "SELECT 2"}, {"seen": SEEN}))
    before = await catalogs(conn), await conn.fetch("SELECT o, o.ctid FROM farrier.schema_objects o ORDER BY o.name")
    wanted = schema({"one": f("a integer", name="one")}, {"seen": "SELECT 1 AS one"}, steps=(GO_ON,))
    assert (await schema_plan.plan(conn, schema=wanted)).would
    after = await catalogs(conn), await conn.fetch("SELECT o, o.ctid FROM farrier.schema_objects o ORDER BY o.name")
    assert after == before


async def test_the_plan_for_a_current_database_is_empty(conn: Connection) -> None:
    wanted = schema({"one": "SELECT 1"}, {"seen": SEEN})
    await migrate.migrate(conn, schema=wanted)
    plan = await planned_and_done(conn, wanted)
    assert not plan.would
    assert not plan.stops


async def test_the_program_s_own_schema_is_migrated_as_planned(empty_db: pg.Database) -> None:
    async with empty_db.connect() as conn:
        await planned_and_done(conn, migrate.carried())
        assert not (await schema_plan.plan(conn)).would


FIRST = schema(
    {"same": "SELECT 1", "changed": "SELECT 1", "gone": "SELECT 1", "touch": touch()},
    {"seen": SEEN, "gone": "SELECT 1 AS one"},
    {"toy.touch": trigger()},
    rights="GRANT SELECT ON farrier.toy TO farrier_reader",
)
SECOND = schema(
    {"same": "SELECT 1", "changed": "SELECT 2", "new": "SELECT 1", "touch": touch()},
    {"seen": f"{SEEN} WHERE id > 0", "new": "SELECT 1 AS one"},
    rights="GRANT SELECT, UPDATE ON farrier.toy TO farrier_reader",
)


async def test_the_objects_in_a_plan_are_made_replaced_and_dropped(conn: Connection) -> None:
    await migrate.migrate(conn, schema=FIRST)
    would = (await planned_and_done(conn, SECOND)).would
    assert set(would.made) == {"function new", "view new"}
    assert set(would.changed) - set(would.made) == {"function changed", "view seen", "rights farrier_reader"}
    assert set(would.dropped) == {"function gone", "view gone", "trigger toy.touch"}
    assert not would.edited


async def test_a_role_whose_file_is_gone_is_in_the_plan(conn: Connection) -> None:
    await migrate.migrate(conn, schema=schema(rights="GRANT SELECT ON farrier.toy TO farrier_reader"))
    plan = await planned_and_done(conn, schema())
    assert plan.would.dropped == ("rights farrier_reader",)
    assert plan.stops == ("farrier_reader may lose SELECT ON farrier.toy",)


@pytest.mark.parametrize(
    ("edit", "made"),
    [
        ("CREATE OR REPLACE FUNCTION farrier.same() RETURNS integer LANGUAGE sql AS 'SELECT 3'", False),
        ("DROP FUNCTION farrier.same()", True),
        ("CREATE FUNCTION farrier.same(text) RETURNS text LANGUAGE sql AS 'SELECT 3::text'", False),
    ],
    ids=["replaced", "dropped", "another of its name"],
)
async def test_an_object_edited_by_hand_is_restored_as_planned(conn: Connection, edit: str, made: bool) -> None:
    await migrate.migrate(conn, schema=FIRST)
    await conn.execute(edit)
    plan = await planned_and_done(conn, FIRST)
    assert plan.would.changed == plan.would.edited == ("function same",)
    assert plan.would.made == (("function same",) if made else ())
    assert not plan.stops


async def test_after_an_upgrade_of_postgresql_the_whole_set_is_applied_again_and_replicas_go_on(
    conn: Connection,
) -> None:
    await migrate.migrate(conn, schema=FIRST)
    await conn.execute("UPDATE farrier.schema_set SET server = server - 1")
    plan = await planned_and_done(conn, FIRST)
    assert len(plan.would.changed) == len(FIRST.objects)
    assert not plan.stops


async def test_steps_are_applied_as_planned(conn: Connection) -> None:
    await migrate.migrate(conn, schema=FIRST)
    wanted = msgspec.structs.replace(FIRST, steps=schema(steps=(GO_ON, STOP)).steps)
    plan = await planned_and_done(conn, wanted)
    assert plan.would.versions == (2, 3)
    assert [step.name for step in plan.steps] == ["toy_2", "toy_3"]
    assert plan.stops == ("the header of migration 3 (toy_3) requires this",)


async def test_a_plan_is_refused_for_the_same_reasons_as_the_migration(conn: Connection) -> None:
    newer = schema(steps=(GO_ON,))
    await migrate.migrate(conn, schema=newer)
    with pytest.raises(errors.SchemaTooNew):
        await schema_plan.plan(conn, schema=schema())
    with pytest.raises(errors.SchemaChanged):
        await schema_plan.plan(conn, schema=schema(steps=(f"{GO_ON};",)))
    await conn.execute("TRUNCATE farrier.schema_steps")
    with pytest.raises(errors.SchemaUnrecorded):
        await schema_plan.plan(conn, schema=newer)


THEIRS = """
    CREATE SCHEMA theirs;
    CREATE VIEW theirs.v AS SELECT farrier.f(1) AS x;
    CREATE VIEW theirs.w AS SELECT * FROM farrier.seen;
"""
USED = schema({"f": f("a integer")}, {"seen": SEEN, "above": "SELECT farrier.f(id) AS g FROM farrier.seen"})


@pytest.mark.parametrize(
    ("wanted", "dependents"),
    [
        (schema(views={"seen": SEEN}), {"view theirs.v"}),
        (schema({"f": f("a integer, b integer DEFAULT 1")}, {"seen": SEEN}), {"view theirs.v"}),
        (schema({"f": f("a integer")}, {"seen": "SELECT id FROM farrier.toy"}), {"view theirs.w"}),
        (schema({"f": f("a integer")}), {"view theirs.w"}),
        (schema(), {"view theirs.v", "view theirs.w"}),
    ],
    ids=["dropped function", "function made anew", "view made anew", "dropped view", "both"],
)
async def test_foreign_objects_that_block_the_migration_are_in_its_plan(
    conn: Connection, wanted: Schema, dependents: set[str]
) -> None:
    await migrate.migrate(conn, schema=USED)
    await conn.execute(THEIRS)
    plan = await schema_plan.plan(conn, schema=wanted)
    assert {each.description for each in plan.in_the_way} == dependents
    with pytest.raises(errors.RefusedByModel) as planned:
        plan.require_free_way()
    with pytest.raises(errors.RefusedByModel) as done:
        await migrate.migrate(conn, schema=wanted)
    assert planned.value.hint == done.value.hint


async def test_a_foreign_view_on_a_view_that_must_be_recreated_is_in_the_way(conn: Connection) -> None:
    await migrate.migrate(conn, schema=USED)
    await conn.execute("CREATE SCHEMA theirs; CREATE VIEW theirs.v AS SELECT g FROM farrier.above")
    wanted = schema({"f": f("b integer")}, {"seen": SEEN, "above": "SELECT farrier.f(id) AS g FROM farrier.seen"})
    (obstacle,) = (await schema_plan.plan(conn, schema=wanted)).in_the_way
    assert str(obstacle) == "view theirs.v depends on view above, which must be dropped and created again"
    with pytest.raises(errors.RefusedByModel):
        await migrate.migrate(conn, schema=wanted)


async def test_foreign_objects_do_not_block_a_replacement_in_place(conn: Connection) -> None:
    await migrate.migrate(conn, schema=USED)
    await conn.execute(THEIRS)
    await planned_and_done(
        conn, schema({"f": f("a integer DEFAULT 3")}, {"seen": "SELECT id, name, size FROM farrier.toy"})
    )


@pytest.mark.parametrize(
    "by_hand",
    [f("a integer", body="SELECT 7"), "UPDATE farrier.schema_set SET server = server - 1"],
    ids=["another body", "another server"],
)
async def test_foreign_objects_do_not_block_a_function_with_its_recorded_parameters(
    conn: Connection, by_hand: str
) -> None:
    await migrate.migrate(conn, schema=USED)
    await conn.execute(THEIRS)
    await conn.execute(by_hand)
    assert (await planned_and_done(conn, USED)).would


async def test_an_edited_body_of_the_function_now_is_restored_in_place(db: pg.Database) -> None:
    """Defaults of columns depend on the function, so it has to be replaced in place."""
    async with db.connect() as conn:
        await conn.execute(
            "CREATE OR REPLACE FUNCTION farrier.now() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE"
            " RETURN transaction_timestamp()"
        )
        assert (await planned_and_done(conn, migrate.carried())).would.edited == ("function now",)


async def test_a_plan_marks_an_uncertain_obstacle_with_its_condition(conn: Connection) -> None:
    """An edited default of a parameter is restored in place only if the file has a default, too."""
    with_default = schema({"f": f("a integer DEFAULT 1")}, {"seen": SEEN})
    await migrate.migrate(conn, schema=with_default)
    await conn.execute(THEIRS)
    await conn.execute(f("a integer DEFAULT 2"))
    plan = await schema_plan.plan(conn, schema=with_default)
    assert [each.unless for each in plan.in_the_way] == ["its parameters and its result match its file"]
    plan.require_free_way()
    assert await migrate.migrate(conn, schema=with_default) == plan.would


async def test_a_plan_marks_an_obstacle_that_a_step_may_remove(conn: Connection) -> None:
    await migrate.migrate(conn, schema=USED)
    await conn.execute(THEIRS)
    step = "-- replicas: go on\nDROP VIEW theirs.v"
    wanted = msgspec.structs.replace(USED, objects=schema({"f": f("b integer")}, {"seen": SEEN}).objects)
    wanted = msgspec.structs.replace(wanted, steps=schema(steps=(step,)).steps)
    plan = await schema_plan.plan(conn, schema=wanted)
    assert [each.unless for each in plan.in_the_way] == ["migration 2 changes that"]
    plan.require_free_way()
    assert await migrate.migrate(conn, schema=wanted) == plan.would


async def test_triggers_of_kinds_do_not_block_a_new_make_kind(db: pg.Database) -> None:
    """The migration drops these triggers first, and makes them again at its end."""
    carried = migrate.carried()
    wanted = msgspec.structs.replace(
        carried,
        objects=tuple(
            msgspec.structs.replace(
                each,
                name=each.name.replace("enter_state", "change_state"),
                source=each.source.replace("enter_state", "change_state"),
            )
            if each.name in {"enter_state", "make_kind"}
            else each
            for each in carried.objects
        ),
    )
    async with db.connect() as conn:
        plan = await planned_and_done(conn, wanted)
        assert plan.would.dropped == ("function enter_state",)
        assert plan.stops == ()
