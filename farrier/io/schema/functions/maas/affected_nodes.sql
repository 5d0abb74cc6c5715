-- Returns the nodes that these readings affect: nodes whose reading differs from the stored one in a field on which handlers decide
-- (significant_fields); nodes whose workflow gets its first reading since its stage began or since the region was
-- replaced; and nodes for which the reading confirms the machine's state (confirmed_after).
CREATE OR REPLACE FUNCTION farrier.affected_nodes(readings jsonb) RETURNS bigint[]
    LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
    AS $$
DECLARE
    affected bigint[];
    enough interval := (farrier.read_constants()).confirmed_after;
BEGIN
    SELECT coalesce(array_agg(c.node), '{}') INTO affected
      FROM jsonb_to_recordset(readings) c (node bigint, system_id text, state text, read_at timestamptz, detail jsonb)
      JOIN farrier.node_observations o ON o.node_id = c.node AND o.system_id = c.system_id
      -- Reads at most one row, by the keys of the node and its workflow.
     CROSS JOIN LATERAL (SELECT (SELECT v.began_at FROM farrier.maas_motion v WHERE v.node_id = c.node) AS began_at OFFSET 0) m
      LEFT JOIN farrier.maas_regions r ON r.name = o.site AND r.ended_at IS NULL
     WHERE o.state IS DISTINCT FROM c.state
        OR farrier.significant_fields(o.detail) <> farrier.significant_fields(c.detail)
        OR (m.began_at IS NOT NULL AND ((o.read_at < m.began_at AND c.read_at >= m.began_at)
                                        OR o.read_at < r.since
                                        OR o.detail -> 'last_sync' IS DISTINCT FROM c.detail -> 'last_sync'))
        OR (o.read_at - o.since < enough AND c.read_at - o.since >= enough);
    RETURN affected;
END $$;
