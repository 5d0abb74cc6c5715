-- Settles runs whose commit got no reply: locks each resource and increments its version, so that the commit has happened before,
-- or can never happen. Returns which moved a layer, from history: versions are the versions that the runs were decided on.
CREATE OR REPLACE FUNCTION farrier.settle_runs(of_kind text, controller uuid, ids bigint[], versions bigint[])
    RETURNS TABLE (id bigint, at timestamptz)
    LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    PERFORM farrier.on_disk();
    EXECUTE format('UPDATE %1$s r SET version = r.version + 1 FROM (SELECT id FROM %1$s WHERE id = ANY ($1) ORDER BY id FOR NO KEY UPDATE) l WHERE r.id = l.id',
                   farrier.table_of(of_kind)) USING ids;
    RETURN QUERY SELECT r.id, min(h.at) FROM unnest(ids, versions) r (id, version)
      LEFT JOIN farrier.history h ON h.kind = of_kind AND h.id = r.id AND h.version = r.version + 1 AND h.controller = settle_runs.controller
     GROUP BY r.id;
END $$;
