-- History by time, and how old history is removed.

-- Pages by time: one statement writes up to a hundred thousand rows with the same `at`, so `at` alone would sort all of them
-- for every page. Of one id there are a handful at most. A migration is a transaction and cannot build
-- CONCURRENTLY: on a large live table, where writers would wait for as long as it takes (10 million rows: some 10 s), make
-- the index beforehand, by hand: CREATE INDEX CONCURRENTLY history_time ON farrier.history (at, id).
CREATE INDEX IF NOT EXISTS history_time ON farrier.history (at, id);
DO $$
BEGIN
    IF NOT (SELECT x.indisvalid FROM pg_index x WHERE x.indexrelid = 'farrier.history_time'::regclass) THEN
        RAISE EXCEPTION 'the index farrier.history_time is there but not valid: its building was interrupted'
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'REINDEX INDEX CONCURRENTLY farrier.history_time, then migrate again.';
    END IF;
END $$;
DROP INDEX farrier.history_at;
-- A fifth of ten million rows is much to wait for.
ALTER TABLE farrier.history SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 10000);

-- The one pass over old history: how far it is, and when its next step is due. Whoever holds the row takes the step, so any
-- number of replicas share one pass, and one that dies leaves it where it was.
CREATE TABLE farrier.history_retention (
    only_one    boolean     PRIMARY KEY DEFAULT true CHECK (only_one),
    due_at      timestamptz NOT NULL DEFAULT farrier.now(),
    began_at    timestamptz,                       -- null between passes
    looked      bigint      NOT NULL DEFAULT 0,    -- of this pass, or the last
    deleted     bigint      NOT NULL DEFAULT 0,
    at          timestamptz,                       -- the row that was looked at last
    id          bigint,
    version     bigint,
    kind        text,
    layer       text
);
INSERT INTO farrier.history_retention DEFAULT VALUES;

-- Looks at up to `most` changes from before `cutoff`, oldest first, behind the given key (nulls: from the beginning), and
-- removes those that are no longer needed; answers how many it looked at and removed, and the key of the last. The newest
-- change of each layer stays for as long as its resource is scheduled: it says how the resource came to where it is.
-- `really` false removes nothing. The one way to remove history: no role but the owner may delete.
CREATE FUNCTION farrier.prune_history(
    cutoff timestamptz, after_at timestamptz, after_id bigint, after_version bigint, after_kind text, after_layer text,
    most integer, really boolean)
    RETURNS TABLE (looked bigint, deleted bigint, at timestamptz, id bigint, version bigint, kind text, layer text)
    LANGUAGE sql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
    WITH looked AS MATERIALIZED (
        SELECT h.ctid AS place, h.at, h.id, h.version, h.kind, h.layer
          FROM farrier.history h
         WHERE (h.at, h.id, h.version, h.kind, h.layer)
             > (coalesce(after_at, '-infinity'), coalesce(after_id, -1), coalesce(after_version, -1), coalesce(after_kind, ''), coalesce(after_layer, ''))
           AND h.at < cutoff
         ORDER BY h.at, h.id, h.version, h.kind, h.layer
         LIMIT most
    ), spent AS MATERIALIZED (
        -- LIMIT keeps the planner from hashing a whole table for a few rows.
        SELECT l.place FROM looked l
         WHERE (SELECT true FROM farrier.history n
                 WHERE n.kind = l.kind AND n.id = l.id AND n.version > l.version AND n.layer = l.layer LIMIT 1) IS NOT NULL
            OR (SELECT true FROM farrier.schedule s WHERE s.kind = l.kind AND s.id = l.id LIMIT 1) IS NULL
    ), gone AS (
        DELETE FROM farrier.history h WHERE really AND h.ctid = ANY (ARRAY(SELECT s.place FROM spent s))
    )
    SELECT (SELECT count(*) FROM looked), (SELECT count(*) FROM spent), l.at, l.id, l.version, l.kind, l.layer
      FROM (SELECT) one
      LEFT JOIN (SELECT * FROM looked ORDER BY at DESC, id DESC, version DESC, kind DESC, layer DESC LIMIT 1) l ON true;
$$;

-- The next step of the pass, if it is due and no other takes it: up to `most` changes that are older than `keep`. Steps of a
-- pass are `pause` apart, passes `every`. `deleted` and `took` are those of the whole pass; `ended`: this was its last step.
CREATE FUNCTION farrier.retain_history(keep interval, most integer, pause interval, every interval)
    RETURNS TABLE (due_in interval, ended boolean, looked bigint, deleted bigint, took interval)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
#variable_conflict use_column
DECLARE
    pass farrier.history_retention;
    step record;
    over boolean;
BEGIN
    SELECT * INTO pass FROM farrier.history_retention FOR NO KEY UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN QUERY SELECT pause, false, 0::bigint, 0::bigint, interval '0';
        RETURN;
    END IF;
    IF pass.due_at > farrier.now() THEN
        RETURN QUERY SELECT pass.due_at - farrier.now(), false, pass.looked, pass.deleted, interval '0';
        RETURN;
    END IF;
    IF pass.began_at IS NULL THEN
        pass.began_at := farrier.now();
        pass.looked := 0;
        pass.deleted := 0;
    END IF;
    SELECT * INTO step
      FROM farrier.prune_history(farrier.now() - keep, pass.at, pass.id, pass.version, pass.kind, pass.layer, most, true);
    over := step.looked < most;
    UPDATE farrier.history_retention r
       SET due_at = farrier.now() + CASE WHEN over THEN every ELSE pause END,
           began_at = CASE WHEN over THEN NULL ELSE pass.began_at END,
           looked = pass.looked + step.looked, deleted = pass.deleted + step.deleted,
           at = CASE WHEN over THEN NULL ELSE step.at END, id = CASE WHEN over THEN NULL ELSE step.id END,
           version = CASE WHEN over THEN NULL ELSE step.version END,
           kind = CASE WHEN over THEN NULL ELSE step.kind END, layer = CASE WHEN over THEN NULL ELSE step.layer END;
    RETURN QUERY SELECT CASE WHEN over THEN every ELSE pause END, over, pass.looked + step.looked, pass.deleted + step.deleted,
                        farrier.now() - pass.began_at;
END $$;

SELECT farrier.grant_rights();
