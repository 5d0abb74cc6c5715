-- Makes databases restorable: `remember` records the state of the database, and `restore` returns it to this state for
-- the next test.
CREATE TABLE farrier_test.commands (tag text);  -- the commands that changed the schema since `remember`

CREATE FUNCTION farrier_test.note_command() RETURNS event_trigger
    LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    INSERT INTO farrier_test.commands VALUES (tg_tag);
END $$;

CREATE FUNCTION farrier_test.statistics() RETURNS text LANGUAGE sql AS $$
    SELECT string_agg(format('%s %s %s', c.relname, c.relpages, c.reltuples), ', ' ORDER BY c.relname)
      FROM pg_class c WHERE c.relnamespace = 'farrier'::regnamespace AND c.relkind = 'r'
$$;
CREATE FUNCTION farrier_test.size() RETURNS bigint LANGUAGE sql AS $$
    SELECT sum(pg_relation_size(c.oid)) FROM pg_class c WHERE c.relnamespace = 'farrier'::regnamespace AND c.relkind IN ('r', 'i')
$$;
CREATE TABLE farrier_test.remembered AS SELECT farrier_test.statistics() AS statistics, farrier_test.size() AS size;

-- Makes farrier_test.repair(), which restores all tables and sequences.
CREATE FUNCTION farrier_test.remember() RETURNS void
    LANGUAGE plpgsql AS $$
DECLARE
    one     record;
    state   text;
    repairs text := '';
BEGIN
    FOR one IN SELECT c.oid::regclass AS name, format('farrier_test.%I', 'rows_of_' || c.oid) AS copy
                 FROM pg_class c
                WHERE c.relkind = 'r' AND c.relpersistence <> 't'
                  AND c.relname <> 'installation'  -- every copy has its own row
                  AND c.relnamespace NOT IN ('pg_catalog'::regnamespace, 'information_schema'::regnamespace, 'farrier_test'::regnamespace)
                ORDER BY 1 LOOP
        EXECUTE format('SELECT (count(*), max(xmin::text::bigint))::text FROM %s', one.name) INTO state;
        IF state = '(0,)' THEN
            repairs := repairs || format('DELETE FROM %s;', one.name);
        ELSE
            EXECUTE format('DROP TABLE IF EXISTS %1$s; CREATE TABLE %1$s AS TABLE %2$s', one.copy, one.name);
            repairs := repairs || format(
                'IF (SELECT (count(*), max(xmin::text::bigint))::text FROM %1$s) <> %2$L THEN
                    DELETE FROM %1$s;
                    INSERT INTO %1$s OVERRIDING SYSTEM VALUE TABLE %3$s;
                END IF;', one.name, state, one.copy);
        END IF;
    END LOOP;
    FOR one IN SELECT format('%I.%I', s.schemaname, s.sequencename) AS name, coalesce(s.last_value, s.start_value) AS value,
                      s.last_value IS NOT NULL AS is_called
                 FROM pg_sequences s LOOP
        repairs := repairs || format('PERFORM setval(%L, %s, %L);', one.name, one.value, one.is_called);
    END LOOP;
    EXECUTE format('CREATE OR REPLACE FUNCTION farrier_test.repair() RETURNS void LANGUAGE plpgsql AS $body$ BEGIN %s END $body$', repairs);
    UPDATE farrier_test.remembered SET statistics = farrier_test.statistics(), size = farrier_test.size();
    DELETE FROM farrier_test.commands;
END $$;

-- Ends all sessions but this and `sessions`, and returns the database to the remembered state. If a test changed the
-- schema, the settings or the planner's statistics, or wrote many rows, this is impossible, and the function returns what
-- the test changed. The session must have session_replication_role = replica, so that no trigger fires.
CREATE FUNCTION farrier_test.restore(sessions integer[]) RETURNS text
    LANGUAGE plpgsql AS $$
DECLARE
    changed text;
BEGIN
    PERFORM pg_terminate_backend(a.pid, 5000) FROM pg_stat_activity a
      WHERE a.datname = current_database() AND a.pid <> ALL (sessions || pg_backend_pid());
    changed := CASE
        WHEN EXISTS (SELECT FROM farrier_test.commands) THEN (SELECT c.tag FROM farrier_test.commands c LIMIT 1)
        WHEN EXISTS (SELECT FROM pg_db_role_setting r JOIN pg_database d ON d.oid = r.setdatabase WHERE d.datname = current_database())
            THEN 'settings of the database'
        WHEN farrier_test.statistics() <> (SELECT r.statistics FROM farrier_test.remembered r) THEN 'statistics'
        WHEN farrier_test.size() > (SELECT r.size + (4 << 20) FROM farrier_test.remembered r) THEN 'size'  -- of deleted rows
    END;
    IF changed IS NULL THEN
        PERFORM farrier_test.repair();
        IF farrier.is_restored() OR EXISTS (SELECT FROM farrier.installation i WHERE i.restored_at IS NOT NULL) THEN
            DELETE FROM farrier.installation;
            PERFORM farrier.settle_here(false);
        END IF;
        UPDATE farrier_test.clock SET shift = '0', frozen = NULL WHERE shift <> '0' OR frozen IS NOT NULL;
        PERFORM pg_stat_force_next_flush();  -- the counters of the next test begin without the rows read here
    END IF;
    RETURN changed;
END $$;

CREATE EVENT TRIGGER note_command ON ddl_command_end EXECUTE FUNCTION farrier_test.note_command();
ALTER EVENT TRIGGER note_command ENABLE ALWAYS;  -- also in sessions in which a test lets no other trigger fire
SELECT farrier_test.remember();
