-- The pulse of the controllers: each commits it every few seconds. It proves that the database commits, and it notices when
-- the database's clock was set back. The times that were stored before are then mended in batches, apart from the pulse.

CREATE TABLE farrier.pulse (
    one boolean     PRIMARY KEY DEFAULT true CHECK (one),
    at  timestamptz NOT NULL
);
INSERT INTO farrier.pulse (at) VALUES (farrier.now());

-- A setback of the clock whose stored times are not mended yet. The mend goes over the tables in the order of `mendable`;
-- `place` is the one that is under way, and `after` the last id that was mended there, null once the table is finished.
CREATE TABLE farrier.mends (
    id       bigint   GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    back     interval NOT NULL,
    noticed  xid      NOT NULL DEFAULT pg_current_xact_id()::xid,  -- rows that are younger were written by the right time
    place    text     NOT NULL DEFAULT '',
    after    bigint
);

-- Whether a column or field of this name says when something is to happen. Every other time is of something that happened.
CREATE FUNCTION farrier.is_of_the_future(name text) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    RETURN name LIKE 'next\_%' OR name LIKE '%\_until' OR name IN ('until', 'expires_at', 'due_at');

-- Whether a field of JSON with this name holds a time by the database's clock. `synced_at` is by the region's.
CREATE FUNCTION farrier.is_a_time(name text) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    RETURN name <> 'synced_at' AND (name LIKE '%\_at' OR name LIKE '%\_until' OR name LIKE '%\_since'
                                    OR name IN ('at', 'since', 'until', 'tries', 'trying'));

-- JSON of ours without times beyond `now`. Logins are told apart by their times, so they keep their distances.
CREATE FUNCTION farrier.mended(value jsonb, now timestamptz, back interval, name text) RETURNS jsonb
    LANGUAGE plpgsql IMMUTABLE SET search_path = farrier, pg_temp AS $$
DECLARE
    at timestamptz;
BEGIN
    IF jsonb_typeof(value) = 'object' THEN
        RETURN (SELECT coalesce(jsonb_object_agg(e.key, farrier.mended(e.value, $2, back, CASE $4 WHEN 'unreadable' THEN 'next_at' ELSE e.key END)), '{}')
                  FROM jsonb_each(value) e);
    ELSIF jsonb_typeof(value) = 'array' THEN
        RETURN (SELECT coalesce(jsonb_agg(farrier.mended(e.value, $2, back, $4) ORDER BY e.ordinality), '[]')
                  FROM jsonb_array_elements(value) WITH ORDINALITY e);
    ELSIF jsonb_typeof(value) <> 'string' OR NOT farrier.is_a_time($4)
       OR value #>> '{}' !~ '^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$' THEN
        RETURN value;
    END IF;
    at := value #>> '{}';
    RETURN CASE WHEN at <= $2 THEN value
                WHEN farrier.is_of_the_future($4) OR $4 IN ('tries', 'trying') THEN to_jsonb(at - back)
                ELSE to_jsonb($2) END;
END $$;

-- What is known of a BMC when nobody sees how the run that is under way ends: a power action was perhaps sent, and a login
-- perhaps refused, so it stays counted and serves no other.
CREATE FUNCTION farrier.unseen(bmc jsonb) RETURNS jsonb
    LANGUAGE sql IMMUTABLE
    RETURN (bmc - 'trying') || CASE WHEN bmc ? 'switching'
                                    THEN jsonb_build_object('switching', bmc -> 'switching' || '{"unsure": true}') ELSE '{}' END;

-- The tables whose times are mended, in order, each with the assignments and the condition that do it: $1 is now, $2 by how
-- much the clock was set back, $3 the transaction that noticed. First those whose rows a run writes as it read them (`kind` is
-- theirs); a row of any other is written by statements that read the time themselves. History stays as it was written, the
-- loop brings its schedule back itself, and JSON that others wrote is theirs.
CREATE FUNCTION farrier.mendable(OUT place text, OUT relation regclass, OUT kind text, OUT changes text, OUT wrong text) RETURNS SETOF record
    LANGUAGE sql STABLE SET search_path = farrier, pg_temp AS $$
    WITH roots AS (
        SELECT 'node' AS kind, 'nodes'::regclass AS relation
        UNION ALL SELECT 'maas_region', 'maas_regions'::regclass
        UNION ALL SELECT k.kind, k.relation FROM kinds k
    ), columns AS (
        SELECT c.oid, r.kind, a.attname, a.atttypid = 'jsonb'::regtype AS is_json,
               is_of_the_future(a.attname) AS of_the_future,
               -- One that a statement wrote since, by the right time, is to happen when it says.
               CASE WHEN r.kind IS NULL AND c.relname NOT IN ('node_onboardings', 'node_decommissions')
                    THEN ' AND age(xmin) >= age($3)' ELSE '' END AS if_older
          FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid LEFT JOIN roots r ON r.relation = c.oid
         WHERE c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
           AND a.atttypid IN ('timestamptz'::regtype, 'jsonb'::regtype)
           AND NOT (a.atttypid = 'jsonb'::regtype
                    AND a.attname IN ('labels', 'params', 'facts', 'health', 'options', 'result', 'value', 'detail', 'cursor'))
           AND (c.relnamespace = 'farrier'::regnamespace OR r.kind IS NOT NULL)
           AND c.oid <> ALL (ARRAY['history', 'schedule', 'schema_migrations', 'pulse', 'resources']::regclass[])
    ), each AS (
        SELECT x.oid, x.kind, x.attname,
               CASE WHEN x.is_json THEN format('mended(%I, $1, $2, %L)', x.attname, x.attname)
                    ELSE format('CASE WHEN %1$I > $1 AND isfinite(%1$I) THEN %2$s ELSE %1$I END', x.attname,
                                CASE WHEN x.of_the_future OR x.oid = 'bmc_logins'::regclass THEN format('%I - $2', x.attname) ELSE '$1' END) END AS becomes,
               CASE WHEN x.is_json THEN format('(%1$I::text LIKE ''%%-__-__T__:__:%%'' AND mended(%1$I, $1, $2, %2$L) <> %1$I%3$s)', x.attname, x.attname, x.if_older)
                    ELSE format('(%1$I > $1 AND isfinite(%1$I)%2$s)', x.attname, CASE WHEN x.of_the_future THEN x.if_older ELSE '' END) END AS wrong
          FROM columns x
    )
    SELECT CASE WHEN e.kind IS NULL THEN '2 ' ELSE '1 ' END || e.oid::regclass::text, e.oid::regclass, e.kind,
           string_agg(format('%I = %s', e.attname, e.becomes), ', ' ORDER BY e.attname),
           string_agg(e.wrong, ' OR ' ORDER BY e.attname)
      FROM each e GROUP BY e.oid, e.kind
$$;

-- Rows of a kind, with what its runs write besides. A run under way was decided by the old time: it is decided anew.
CREATE FUNCTION farrier.mend_rows(of_kind text, relation regclass, ids bigint[], changes text, wrong text, now timestamptz, back interval) RETURNS void
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
DECLARE
    anew bigint[];
    more bigint[];
    workflows record;
BEGIN
    EXECUTE format('SELECT FROM %s WHERE id = ANY ($1) ORDER BY id FOR NO KEY UPDATE', relation) USING ids;
    anew := ARRAY(SELECT s.id FROM schedule s WHERE s.kind = of_kind AND s.id = ANY (ids) AND s.claim_token IS NOT NULL);
    IF of_kind = 'node' THEN
        UPDATE nodes n SET bmc = unseen(n.bmc) WHERE n.id = ANY (anew) AND n.bmc ?| ARRAY['switching', 'trying'];
        FOR workflows IN
            SELECT m.* FROM mendable() m WHERE m.relation IN ('node_onboardings'::regclass, 'node_decommissions'::regclass)
        LOOP
            EXECUTE format('WITH changed AS (UPDATE %s SET %s WHERE node_id = ANY ($3) AND (%s) RETURNING node_id)
                            SELECT array_agg(node_id) FROM changed', workflows.relation, workflows.changes, workflows.wrong)
               INTO more USING $6, back, ids;
            anew := anew || more;
        END LOOP;
    END IF;
    EXECUTE format('UPDATE %s SET version = version + 1, %s WHERE id = ANY ($3) AND (%s OR id = ANY ($4))', relation, changes, wrong)
      USING $6, back, ids, anew;
END $$;

-- One batch of the mend that is under way, by one process at a time. Times that lie beyond now are replaced: of what happened by
-- now, from which limits count; of what is to happen by as much earlier. Answers whether more is left to do here, and by how
-- much the clock had been set back once all is done.
CREATE FUNCTION farrier.mend(at_most integer, OUT more boolean, OUT done interval)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    now timestamptz := farrier.now();
    mend mends;
    one record;
    ids bigint[];
    last bigint;
BEGIN
    more := false;
    SELECT * INTO mend FROM mends m WHERE m.id = (SELECT min(id) FROM mends) FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN RETURN; END IF;
    SELECT * INTO one FROM mendable() m
     WHERE m.place COLLATE "C" > mend.place OR m.place = mend.place AND mend.after IS NOT NULL
     ORDER BY m.place COLLATE "C" LIMIT 1;
    IF NOT FOUND THEN
        DELETE FROM mends m WHERE m.id = mend.id;
        done := mend.back;
    ELSIF one.kind IS NOT NULL THEN
        EXECUTE format('SELECT array_agg(id), max(id) FROM (SELECT id FROM %s WHERE id > $1 ORDER BY id LIMIT $2) r', one.relation)
           INTO ids, last USING CASE WHEN one.place = mend.place THEN mend.after ELSE 0 END, at_most;
        PERFORM mend_rows(one.kind, one.relation, ids, one.changes, one.wrong, now, mend.back);
        UPDATE mends m SET place = one.place, after = CASE WHEN cardinality(ids) = at_most THEN last END WHERE m.id = mend.id;
    ELSE
        EXECUTE format('WITH changed AS (UPDATE %1$s SET %2$s WHERE ctid = ANY (ARRAY(
                                SELECT ctid FROM %1$s WHERE %3$s LIMIT $4 FOR NO KEY UPDATE)) RETURNING 1)
                        SELECT count(*) FROM changed', one.relation, one.changes, one.wrong)
           INTO last USING now, mend.back, mend.noticed, at_most;
        UPDATE mends m SET place = one.place, after = CASE WHEN last = at_most THEN 0 END WHERE m.id = mend.id;
    END IF;
    more := EXISTS (SELECT FROM mends);
END $$;

-- One pulse. Answers by how much the clock was set back since the last one, null if it was not. Pulses that waited for each
-- other, and clocks that are kept by small steps, are within 10 s; no limit is as short.
CREATE FUNCTION farrier.beat() RETURNS interval
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    now timestamptz := farrier.now();
    back interval;
BEGIN
    SELECT p.at - now INTO back FROM pulse p FOR NO KEY UPDATE;
    IF back > interval '10 seconds' THEN
        INSERT INTO mends (back) VALUES (back);
    ELSE
        back := NULL;
    END IF;
    UPDATE pulse p SET at = CASE WHEN back IS NULL THEN greatest(p.at, now) ELSE now END;
    RETURN back;
END $$;

SELECT farrier.let_call('farrier_controller', 'farrier.beat()');
SELECT farrier.let_call('farrier_controller', 'farrier.mend(integer)');
SELECT farrier.grant_rights();
