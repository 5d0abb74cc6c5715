-- Settles runs whose commits got no reply: after this call, each commit has happened or can never happen. Locks each resource, so
-- it waits for a commit that is still open. If the resource still has the version on which the run was decided, increments this
-- version, so that the commit finds a conflict. Returns the runs whose commits happened: a resource has the ID of the last
-- commit that wrote it. `at` is the time of a run that changed a layer, null for other runs. May be repeated.
CREATE OR REPLACE FUNCTION farrier.settle_runs(of_kind text, ids bigint[], versions bigint[], commits uuid[])
    RETURNS TABLE (id bigint, at timestamptz)
    LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    happened bigint[];
BEGIN
    PERFORM farrier.on_disk();
    EXECUTE format('WITH l AS MATERIALIZED (SELECT id, version, commit_id FROM %1$s WHERE id = ANY ($1) ORDER BY id FOR NO KEY UPDATE),
                         u AS (UPDATE %1$s r SET version = l.version + 1 FROM l JOIN unnest($1, $2) d (id, version) USING (id, version)
                                WHERE r.id = l.id)
                    SELECT array_agg(id) FROM l JOIN unnest($1, $3) d (id, commit_id) USING (id, commit_id)',
                   (farrier.kind_of(of_kind)).relation) INTO happened USING ids, versions, commits;
    RETURN QUERY SELECT r.id, min(h.at)
      FROM unnest(ids, versions) r (id, version)
      LEFT JOIN farrier.history h ON h.kind = of_kind AND h.id = r.id AND h.version = r.version + 1
     WHERE r.id = ANY (happened)
     GROUP BY r.id;
END $$;
