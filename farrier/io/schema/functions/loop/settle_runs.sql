-- Finds out which runs were committed by a commit whose reply the controller did not receive. Locks each resource; if
-- the commit has not happened, increments the version so that it can never happen. The increment is two, so that a
-- repeated call does not mistake it for a commit. Returns the committed runs; `at` is the time of a run that changed a
-- layer, null for other runs. `versions` are the versions on which the runs were decided.
CREATE OR REPLACE FUNCTION farrier.settle_runs(of_kind text, controller uuid, ids bigint[], versions bigint[])
    RETURNS TABLE (id bigint, at timestamptz)
    LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    found bigint[];
    current bigint[];
BEGIN
    PERFORM farrier.on_disk();
    EXECUTE format('WITH l AS MATERIALIZED (SELECT id, version FROM %1$s WHERE id = ANY ($1) ORDER BY id FOR NO KEY UPDATE),
                         u AS (UPDATE %1$s r SET version = l.version + 2 FROM l JOIN unnest($1, $2) d (id, version) USING (id, version)
                                WHERE r.id = l.id)
                    SELECT array_agg(id), array_agg(version) FROM l',
                   (farrier.kind_of(of_kind)).relation) INTO found, current USING ids, versions;
    RETURN QUERY SELECT r.id, min(h.at)
      FROM unnest(ids, versions) r (id, version)
      JOIN unnest(found, current) f (id, version) ON f.id = r.id AND f.version = r.version + 1
      LEFT JOIN farrier.history h ON h.kind = of_kind AND h.id = r.id AND h.version = r.version + 1 AND h.controller = settle_runs.controller
     GROUP BY r.id;
END $$;
