-- Mends the rows of a kind with these ids, and the rows of its layers in other tables; changes and wrong are
-- expressions of mendable. If the schema of the kind's table has a function KIND_unseen(bigint[]), calls it with the
-- resources that have a running step. Increments the version of each row that it changes
-- or that has a running step: the run was decided on the old time, so its commit is a conflict and it is decided again.
-- Enqueues all these resources, because a controller has their old times in memory, including times from tables that
-- were mended before. Locks the rows in the order of ids. Called by mend.
CREATE OR REPLACE FUNCTION farrier.mend_rows(of_kind text, relation regclass, ids bigint[], changes text, wrong text, now timestamptz, back interval) RETURNS void
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
DECLARE
    anew bigint[];
    more bigint[];
    inner_table record;
    unseen text := (SELECT format('%I.%I', s.nspname, of_kind || '_unseen')
                      FROM pg_class c JOIN pg_namespace s ON s.oid = c.relnamespace WHERE c.oid = relation);
BEGIN
    EXECUTE format('SELECT FROM %s WHERE id = ANY ($1) ORDER BY id FOR NO KEY UPDATE', relation) USING ids;
    anew := ARRAY(SELECT e.resource FROM effects e WHERE e.kind = of_kind AND e.resource = ANY (ids));
    IF to_regprocedure(unseen || '(bigint[])') IS NOT NULL THEN
        EXECUTE format('SELECT %s($1)', unseen) USING anew;
    END IF;
    FOR inner_table IN
        SELECT m.* FROM mendable() m WHERE m.relation IN (SELECT l.relation FROM kind_layers l WHERE l.kind = of_kind)
    LOOP
        EXECUTE format('WITH changed AS (UPDATE %1$s SET %2$s WHERE %3$I = ANY ($3) AND (%4$s) RETURNING %3$I)
                        SELECT array_agg(%3$I) FROM changed', inner_table.relation, inner_table.changes, of_kind || '_id', inner_table.wrong)
           INTO more USING $6, back, ids;
        anew := anew || more;
    END LOOP;
    EXECUTE format('UPDATE %s SET version = version + 1, %s WHERE id = ANY ($3) AND (%s OR id = ANY ($4))', relation, changes, wrong)
      USING $6, back, ids, anew;
    INSERT INTO wakes (kind, resource) SELECT of_kind, l.id FROM living(of_kind, ids) l (id);
END $$;
