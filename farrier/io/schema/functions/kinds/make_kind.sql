-- Registers a table for a kind. The table must have been created LIKE farrier.resources INCLUDING ALL. Records the
-- kind, and adds the unique index on names, the triggers of every kind, a trigger for each layer, the shards and the
-- rights. May be repeated: it adds only missing parts, so a repeated call does not wait for transactions that use the
-- table. FR400 for a table that lacks columns or defaults of farrier.resources, FR409 for a kind or a table that is in
-- use.
CREATE OR REPLACE FUNCTION farrier.make_kind(kind text, relation regclass) RETURNS void
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
DECLARE
    missing text := (SELECT string_agg(t.attname, ', ' ORDER BY t.attnum) FROM pg_attribute t
                      WHERE t.attrelid = 'farrier.resources'::regclass AND t.attnum > 0 AND NOT t.attisdropped
                        AND NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = relation AND a.attname = t.attname
                                                                     AND a.atttypid = t.atttypid AND NOT a.attisdropped));
    -- DROP SCHEMA farrier CASCADE drops the defaults that call a function of farrier, and leaves the table.
    undefined text := (SELECT string_agg(format('ALTER TABLE %s ALTER %I SET DEFAULT %s', relation, t.attname, pg_get_expr(d.adbin, d.adrelid)),
                                         '; ' ORDER BY t.attnum)
                         FROM pg_attribute t JOIN pg_attrdef d ON d.adrelid = t.attrelid AND d.adnum = t.attnum
                         JOIN pg_attribute a ON a.attrelid = relation AND a.attname = t.attname
                        WHERE t.attrelid = 'farrier.resources'::regclass AND NOT a.atthasdef);
    layers text[] := ARRAY(SELECT l.layer FROM kind_layers l WHERE l.kind = make_kind.kind UNION SELECT 'state' ORDER BY 1);
    other record;
    one record;
BEGIN
    IF missing IS NOT NULL THEN
        RAISE EXCEPTION '% lacks columns: %', relation, missing
            USING ERRCODE = 'FR400', HINT = 'CREATE TABLE ... (LIKE farrier.resources INCLUDING ALL, ...)';
    END IF;
    IF undefined IS NOT NULL THEN
        RAISE EXCEPTION '% lacks defaults of farrier.resources; DROP SCHEMA farrier CASCADE removes them', relation
            USING ERRCODE = 'FR400', HINT = format('Drop the table, or restore its defaults: %s', undefined);
    END IF;
    SELECT k.* INTO other FROM kinds k
     WHERE (k.kind = make_kind.kind) <> (k.relation = make_kind.relation) AND EXISTS (SELECT FROM pg_class c WHERE c.oid = k.relation);
    IF FOUND THEN
        RAISE EXCEPTION 'kind % already has table %', other.kind, other.relation
            USING ERRCODE = 'FR409', HINT = 'A kind has one table, and a table belongs to one kind. farrier kind remove removes a kind.';
    END IF;
    IF NOT EXISTS (SELECT FROM kinds k WHERE k.kind = make_kind.kind AND k.relation = make_kind.relation) THEN
        INSERT INTO kinds AS k (kind, relation, from_template) VALUES (make_kind.kind, make_kind.relation, true)
            ON CONFLICT ON CONSTRAINT kinds_pkey DO UPDATE SET relation = excluded.relation;
        EXECUTE format('ALTER TABLE %s SET (fillfactor = 80)', relation);  -- LIKE does not copy it
        PERFORM begin_ids(make_kind.kind, relation);
    END IF;
    IF NOT EXISTS (SELECT FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
                    WHERE i.indrelid = relation AND c.relname = name_index(kind) AND i.indisunique) THEN
        EXECUTE format('CREATE UNIQUE INDEX %I ON %s (name) WHERE ended_at IS NULL', name_index(kind), relation);
    END IF;
    FOR one IN SELECT w.* FROM (SELECT 'begin_resource' AS name, 'begin_resource' AS calls, 'BEFORE INSERT' AS at, NULL AS layer
                                UNION ALL SELECT 'enqueue_resource', 'enqueue_resource', 'AFTER INSERT', NULL
                                UNION ALL SELECT 'enter_' || l, 'enter_state', 'BEFORE UPDATE', l FROM unnest(layers) l) w
                WHERE NOT EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = relation AND t.tgname = w.name
                                     AND t.tgfoid = to_regproc('farrier.' || w.calls)) LOOP
        EXECUTE format('CREATE TRIGGER %I %s ON %s FOR EACH ROW %s EXECUTE FUNCTION farrier.%I(%s)',
            one.name, one.at, relation, CASE WHEN one.layer IS NOT NULL THEN format('WHEN (OLD.%1$I <> NEW.%1$I)', one.layer) END,
            one.calls, concat_ws(', ', quote_literal(kind), quote_literal(one.layer)));
    END LOOP;
    PERFORM make_shards(kind);
    PERFORM grant_kind_rights(relation);
END $$;
