-- Settles runs whose commits got no reply: the commit of each returned run has happened or can never happen. Leaves out resources
-- that another transaction has locked, such as a commit that is still open. If the resource still has the version on which the
-- run was decided, increments this version, so that the commit finds a conflict. The commit has happened if the resource has its
-- ID, which is the ID of the last commit that wrote the resource. `at` is the time of a run that changed a layer, null for other
-- runs. May be repeated.
CREATE OR REPLACE FUNCTION farrier.settle_runs(of_kind text, ids bigint[], versions bigint[], commits uuid[])
    RETURNS TABLE (id bigint, happened boolean, at timestamptz)
    LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    held bigint[];
    found bigint[];
    locked bigint[];
BEGIN
    PERFORM farrier.on_disk();
    EXECUTE format('WITH l AS MATERIALIZED (SELECT id, version, commit_id FROM %1$s WHERE id = ANY ($1) ORDER BY id FOR NO KEY UPDATE SKIP LOCKED),
                         u AS (UPDATE %1$s r SET version = l.version + 1 FROM l JOIN unnest($1, $2) d (id, version) USING (id, version)
                                WHERE r.id = l.id)
                    SELECT coalesce(array_agg(l.id), ''{}''), coalesce(array_agg(l.id) FILTER (WHERE l.commit_id = d.commit_id), ''{}'')
                      FROM l JOIN unnest($1, $3) d (id, commit_id) ON d.id = l.id',
                   (farrier.kind_of(of_kind)).relation) INTO held, found USING ids, versions, commits;
    EXECUTE format('SELECT coalesce(array_agg(id), ''{}'') FROM %s WHERE id = ANY ($1) AND id <> ALL ($2)',
                   (farrier.kind_of(of_kind)).relation) INTO locked USING ids, held;
    RETURN QUERY SELECT r.id, r.id = ANY (found), min(h.at)
      FROM unnest(ids, versions) r (id, version)
      LEFT JOIN farrier.history h ON h.kind = of_kind AND h.id = r.id AND h.version = r.version + 1 AND r.id = ANY (found)
     WHERE r.id <> ALL (locked)
     GROUP BY r.id;
END $$;
