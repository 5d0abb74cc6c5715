-- Returns the nodes that exceed a limit, and their number, ordered by the time at which each node first exceeded a
-- limit. $1 to $10 select nodes as in inventory.sql; $11 the time; $12 to $17: limits as (kind, state, substate, scope,
-- name, lasts), scope '', 'model' or 'site'; $18 to $20: states of this program's model, because nodes in other states
-- are skipped; $21 how many, null for all. An index finds the clocks that are older than the shortest limit in their
-- state and do not stand still.
WITH limits AS MATERIALIZED (
    SELECT * FROM unnest($12::text[], $13::text[], $14::text[], $15::text[], $16::text[], $17::interval[])
                  AS l (kind, state, substate, scope, name, lasts)),
known AS MATERIALIZED (
    SELECT * FROM unnest($18::text[], $19::text[], $20::text[]) AS k (kind, state, substate)),
floors AS MATERIALIZED (
    SELECT row_number() OVER () AS place, kind, state, substate, min(lasts) AS lasts, min(lasts) FILTER (WHERE scope = '') AS usual,
           jsonb_object_agg(name, lasts) FILTER (WHERE scope = 'model') AS models,
           jsonb_object_agg(name, lasts) FILTER (WHERE scope = 'site') AS sites,
           EXISTS (SELECT FROM farrier.clock_stops s WHERE s.kind = l.kind AND s.state = l.state) AS stops
      FROM limits l GROUP BY kind, state, substate),
workflows AS MATERIALIZED (
    SELECT w.kind, w.id, w.node_id, w.status, w.substate, w.entered_at, w.mode_given_at FROM farrier.node_workflows w WHERE w.ended_at IS NULL),
late AS (
    SELECT f.place, n.id, n.site, n.model, n.entered_at
      FROM floors f CROSS JOIN LATERAL (
           SELECT x.id, x.site, x.model, x.status_entered_at AS entered_at FROM farrier.nodes x
            WHERE x.status = f.state AND x.status_entered_at < $11::timestamptz - f.lasts
              AND (NOT f.stops OR (SELECT true FROM farrier.still_clocks s WHERE s.node_id = x.id AND s.kind = f.kind AND s.state = f.state LIMIT 1) IS NULL)
           OFFSET 0) n
     WHERE f.kind = 'node'
    UNION ALL
    SELECT f.place, n.id, n.site, n.model, n.entered_at
      FROM floors f CROSS JOIN LATERAL (
           SELECT x.id, x.site, x.model, x.management_entered_at AS entered_at FROM farrier.nodes x
            WHERE x.management = f.state AND x.management_entered_at < $11 - f.lasts AND x.status <> 'deleted'
              AND (NOT f.stops OR (SELECT true FROM farrier.still_clocks s WHERE s.node_id = x.id AND s.kind = f.kind AND s.state = f.state LIMIT 1) IS NULL)
           OFFSET 0) n
     WHERE f.kind = 'management'
    UNION ALL
    SELECT w.place, n.id, n.site, n.model, w.entered_at
      FROM (SELECT f.place, w.kind, w.id, w.node_id, w.entered_at
              FROM floors f JOIN workflows w ON w.kind = f.kind AND w.status = f.state AND w.substate = f.substate
             WHERE w.entered_at < $11 - f.lasts
               AND (NOT f.stops OR (SELECT true FROM farrier.still_clocks s WHERE s.node_id = w.node_id AND s.kind = f.kind AND s.state = f.state LIMIT 1) IS NULL)
            UNION ALL
            SELECT f.place, w.kind, w.id, w.node_id, w.mode_given_at
              FROM floors f JOIN workflows w ON w.kind = f.kind AND f.state = 'end_to_end'
             WHERE w.mode_given_at < $11 - f.lasts) w
      JOIN farrier.nodes n ON n.id = w.node_id AND n.live_workflow_kind = w.kind AND n.live_workflow_id = w.id),
above AS MATERIALIZED (
    SELECT id, min(over_at) AS over_at
      FROM (SELECT l.id, l.entered_at + coalesce((f.sites ->> l.site)::interval, (f.models ->> l.model)::interval, f.usual) AS over_at
              FROM late l JOIN floors f USING (place) OFFSET 0) c
     WHERE over_at < $11
     GROUP BY id)
SELECT n.id, count(*) OVER () AS n
  FROM above a
  JOIN farrier.selected_nodes($1::text[], $2::text[], $3::jsonb, $4::boolean, $5::text[], $6::text[], $7::boolean[]) n USING (id)
 WHERE (SELECT true FROM unnest($8::text[], $9::text[], $10::text[]) AS r (first, beyond, pattern)
         WHERE n.name >= r.first AND n.name < r.beyond AND n.name ~ r.pattern LIMIT 1)
   AND n.status = ANY (ARRAY(SELECT k.state FROM known k WHERE k.kind = 'node'))
   AND n.management = ANY (ARRAY(SELECT k.state FROM known k WHERE k.kind = 'management'))
   AND (n.live_workflow_id IS NULL
        OR EXISTS (SELECT FROM workflows w
                    WHERE w.kind = n.live_workflow_kind AND w.id = n.live_workflow_id
                      AND (w.status = 'running' AND w.substate = ''
                           OR (w.kind, w.status, w.substate) IN (SELECT k.kind, k.state, k.substate FROM known k))))
 ORDER BY a.over_at, n.id
 LIMIT $21
