-- Records in history that no brake holds a node any more, and who lifted the brake if somebody did; wakes these nodes. Later calls record
-- the nodes that another transaction has locked, and those beyond a thousand. The versions are incremented as in held_by_brakes. Called by
-- beat, which runs as the owner.
CREATE OR REPLACE FUNCTION farrier.end_holds() RETURNS void
    LANGUAGE sql SET search_path = farrier, pg_temp SET enable_seqscan = off AS $$
    WITH ended AS MATERIALIZED (
        SELECT n.id, n.status, l.requested_by, l.reason
          FROM nodes n LEFT JOIN brakes_lifted l ON l.site = coalesce(n.site, '')
         WHERE n.id IN (SELECT h.node FROM held_nodes h) AND NOT EXISTS (SELECT FROM braked_nodes b WHERE b.id = n.id)
         ORDER BY n.id LIMIT 1000 FOR NO KEY UPDATE OF n SKIP LOCKED
    ), forgotten AS (
        DELETE FROM held_nodes h USING ended e WHERE h.node = e.id
    ), woken AS (
        INSERT INTO wakes (kind, resource) SELECT 'node', e.id FROM ended e WHERE e.status <> 'deleted'
    ), moved AS (
        UPDATE nodes n SET version = n.version + 2 FROM ended e WHERE n.id = e.id RETURNING n.id, n.version, e.status, e.requested_by, e.reason
    )
    INSERT INTO history (kind, id, version, layer, from_value, to_value, at, cause, requested_by, reason, source, controller, epoch)
    SELECT 'node', m.id, m.version, 'brake', 'held', 'free', farrier.now(), 'brake', m.requested_by,
           'no brake keeps the node in service any more: ' || coalesce('the brake of its site was lifted: ' || m.reason,
               CASE m.status WHEN 'active' THEN 'it has no cause to leave' ELSE 'it is ' || m.status END),
           'end_holds', '00000000-0000-0000-0000-000000000000', 0
      FROM moved m;
$$;
