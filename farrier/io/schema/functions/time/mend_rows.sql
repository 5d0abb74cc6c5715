-- Mends the rows of a kind that have these ids, with the workflows that runs of nodes write; changes and wrong are expressions of
-- mendable. Increments the version of each row that it changes or whose run is under way by two, which no commit does: that run was
-- decided on the old time, so its commit is a conflict and it is decided again. Enqueues all of them: a controller has their old times in memory, also those
-- of tables that were mended before. Locks the rows in the order of ids. Called by mend.
CREATE OR REPLACE FUNCTION farrier.mend_rows(of_kind text, relation regclass, ids bigint[], changes text, wrong text, now timestamptz, back interval) RETURNS void
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
DECLARE
    anew bigint[];
    more bigint[];
    workflows record;
BEGIN
    EXECUTE format('SELECT FROM %s WHERE id = ANY ($1) ORDER BY id FOR NO KEY UPDATE', relation) USING ids;
    anew := ARRAY(SELECT e.resource FROM effects e WHERE e.kind = of_kind AND e.resource = ANY (ids));
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
    EXECUTE format('UPDATE %s SET version = version + 2, %s WHERE id = ANY ($3) AND (%s OR id = ANY ($4))', relation, changes, wrong)
      USING $6, back, ids, anew;
    INSERT INTO wakes (kind, resource) SELECT of_kind, l.id FROM living(of_kind, ids) l (id);
END $$;
