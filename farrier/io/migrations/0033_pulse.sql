-- The pulse of the controllers: each commits it every few seconds. It proves that the database commits, and it notices when
-- the database's clock was set back.

CREATE TABLE farrier.pulse (
    one boolean     PRIMARY KEY DEFAULT true CHECK (one),
    at  timestamptz NOT NULL
);
INSERT INTO farrier.pulse (at) VALUES (farrier.now());

-- Whether a column or field of this name says when something is to happen. Every other time is of something that happened.
CREATE FUNCTION farrier.is_of_the_future(name text) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    RETURN name LIKE 'next\_%' OR name LIKE '%\_until' OR name IN ('expires_at', 'due_at');

-- JSON of ours without times beyond `now`. Logins are told apart by their times, so they keep their distances. What the
-- region's clock says (`synced_at`) is left alone.
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
    ELSIF jsonb_typeof(value) <> 'string' OR $4 = 'synced_at' OR $4 NOT IN ('tries', 'trying') AND $4 NOT LIKE '%\_at'
       OR value #>> '{}' !~ '^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$' THEN
        RETURN value;
    END IF;
    at := value #>> '{}';
    RETURN CASE WHEN at <= $2 THEN value
                WHEN farrier.is_of_the_future($4) OR $4 IN ('tries', 'trying') THEN to_jsonb(at - back)
                ELSE to_jsonb($2) END;
END $$;

-- Replaces times that lie beyond `now` because the clock was set back: of what happened by `now`, from which limits count; of
-- what is to happen by as much earlier. Runs that were decided before are decided anew, because they would write such times.
-- History stays as it was written, and the loop brings its schedule back itself.
CREATE FUNCTION farrier.mend_times(now timestamptz, back interval) RETURNS void
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
DECLARE
    versioned regclass[] := ARRAY['nodes', 'maas_regions']::regclass[] || ARRAY(SELECT k.relation FROM kinds k ORDER BY k.kind);
    relation regclass;
    column_name name;
    one record;
BEGIN
    FOREACH relation IN ARRAY versioned LOOP
        EXECUTE format('SELECT FROM %s ORDER BY id FOR NO KEY UPDATE', relation);
        EXECUTE format('UPDATE %s SET version = version + 1', relation);
    END LOOP;
    FOR relation, column_name IN VALUES ('nodes'::regclass, 'bmc'::name), ('node_onboardings', 'upstream'),
            ('node_decommissions', 'upstream'), ('maas_regions', 'unreadable'), ('ib_partitions', 'strangers') LOOP
        EXECUTE format('UPDATE %1$s SET %2$I = mended(%2$I, $1, $2, %2$L) WHERE mended(%2$I, $1, $2, %2$L) <> %2$I', relation, column_name)
          USING $1, back;
    END LOOP;
    UPDATE bmc_logins l SET at = l.at - back WHERE l.at > $1;
    FOR one IN
        SELECT c.oid::regclass AS relation,
               string_agg(format('%1$I = CASE WHEN %1$I > $1 THEN %2$s ELSE %1$I END', a.attname,
                                 CASE WHEN is_of_the_future(a.attname) THEN format('%I - $2', a.attname) ELSE '$1' END), ', ') AS changes,
               string_agg(format('%I > $1 AND isfinite(%1$I)', a.attname), ' OR ') AS wrong
          FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
         WHERE c.relkind = 'r' AND a.attnum > 0 AND a.atttypid = 'timestamptz'::regtype AND NOT a.attisdropped AND a.attgenerated = ''
           AND (c.relnamespace = 'farrier'::regnamespace OR c.oid = ANY (versioned))
           AND c.oid <> ALL (ARRAY['history', 'schedule', 'schema_migrations', 'pulse', 'bmc_logins']::regclass[])
         GROUP BY c.oid ORDER BY c.oid::regclass::text
    LOOP
        EXECUTE format('UPDATE %s SET %s WHERE %s', one.relation, one.changes, one.wrong) USING $1, back;
    END LOOP;
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
        PERFORM mend_times(now, back);
    ELSE
        back := NULL;
    END IF;
    UPDATE pulse p SET at = CASE WHEN back IS NULL THEN greatest(p.at, now) ELSE now END;
    RETURN back;
END $$;

SELECT farrier.let_call('farrier_controller', 'farrier.beat()');
SELECT farrier.grant_rights();
