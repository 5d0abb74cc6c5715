-- Returns the nodes that exceed a limit, and their number, those furthest above a limit first. $1 to $10 select nodes as in
-- inventory.sql; $11 the time; $12 to $17: limits as late_clocks takes them; $18 to $20: states of this program's model, because
-- nodes in other states are skipped; $21 how many, null for all.
WITH known AS MATERIALIZED (
    SELECT * FROM unnest($18::text[], $19::text[], $20::text[]) AS k (kind, state, substate)),
above AS MATERIALIZED (
    SELECT c.node_id AS id, max(c.excess) AS excess
      FROM farrier.late_clocks($12::text[], $13::text[], $14::text[], $15::text[], $16::text[], $17::text[]::interval[], $11::timestamptz) c
     GROUP BY c.node_id)
SELECT n.id, count(*) OVER () AS n
  FROM above a
  JOIN farrier.selected_nodes($1::text[], $2::text[], $3::jsonb, $4::boolean, $5::text[], $6::text[], $7::text[]::boolean[]) n USING (id)
 WHERE (SELECT true FROM unnest($8::text[], $9::text[], $10::text[]) AS r (first, beyond, pattern)
         WHERE n.name >= r.first AND n.name < r.beyond AND n.name ~ r.pattern LIMIT 1)
   AND n.status = ANY (ARRAY(SELECT k.state FROM known k WHERE k.kind = 'node'))
   AND n.management = ANY (ARRAY(SELECT k.state FROM known k WHERE k.kind = 'management'))
   AND (n.live_workflow_id IS NULL
        OR EXISTS (SELECT FROM farrier.node_workflows w
                    WHERE w.kind = n.live_workflow_kind AND w.id = n.live_workflow_id
                      AND (w.status = 'running' AND w.substate = ''
                           OR (w.kind, w.status, w.substate) IN (SELECT k.kind, k.state, k.substate FROM known k))))
 ORDER BY a.excess DESC, n.id
 LIMIT $21
