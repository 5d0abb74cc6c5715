-- Examines up to `most` rows of history from before cutoff, oldest first, after the given key (nulls: from the beginning), and
-- deletes those that are no longer needed; with `really` false, it only counts them. The newest row of each layer is
-- needed while its resource has not ended, because it explains the current state. Returns how many rows it examined and
-- deleted, and the key of the last examined row. No role may delete history; this function runs as the owner.
CREATE OR REPLACE FUNCTION farrier.prune_history(
    cutoff timestamptz, after_at timestamptz, after_id bigint, after_version bigint, after_kind text, after_layer text,
    most integer, really boolean)
    RETURNS TABLE (looked bigint, deleted bigint, at timestamptz, id bigint, version bigint, kind text, layer text)
    LANGUAGE sql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
    WITH looked AS MATERIALIZED (
        SELECT h.ctid AS place, h.at, h.id, h.version, h.kind, h.layer
          FROM farrier.history h
         WHERE (h.at, h.id, h.version, h.kind, h.layer)
             > (coalesce(after_at, '-infinity'), coalesce(after_id, -1), coalesce(after_version, -1), coalesce(after_kind, ''), coalesce(after_layer, ''))
           AND h.at < cutoff
         ORDER BY h.at, h.id, h.version, h.kind, h.layer
         LIMIT most
    ), alive AS MATERIALIZED (
        -- No resource of a removed kind, or of a kind whose table was dropped, is alive.
        SELECT g.kind, r.id
          FROM (SELECT l.kind, array_agg(DISTINCT l.id) AS ids
                  FROM looked l JOIN farrier.kinds k ON k.kind = l.kind JOIN pg_class c ON c.oid = k.relation
                 GROUP BY l.kind) g
         CROSS JOIN LATERAL farrier.living(g.kind, g.ids) r (id)
    ), spent AS MATERIALIZED (
        -- LIMIT keeps the planner from hashing a whole table to look up a few rows.
        SELECT l.place FROM looked l
         WHERE (SELECT true FROM farrier.history n
                 WHERE n.kind = l.kind AND n.id = l.id AND n.version > l.version AND n.layer = l.layer LIMIT 1) IS NOT NULL
            OR (l.kind, l.id) NOT IN (SELECT a.kind, a.id FROM alive a)
    ), gone AS (
        DELETE FROM farrier.history h WHERE really AND h.ctid = ANY (ARRAY(SELECT s.place FROM spent s))
    )
    SELECT (SELECT count(*) FROM looked), (SELECT count(*) FROM spent), l.at, l.id, l.version, l.kind, l.layer
      FROM (SELECT) one
      LEFT JOIN (SELECT * FROM looked ORDER BY at DESC, id DESC, version DESC, kind DESC, layer DESC LIMIT 1) l ON true;
$$;
