-- The running clocks of nodes that have a limit: one row for each layer, one for the stage of a workflow, also while the
-- failed stage waits for its next attempt, and one for a whole workflow (state end_to_end). A limit of the site takes precedence over a limit of the model, and a limit of the model over the
-- general limit. above_since is when the clock exceeded its limit; null before.
CREATE OR REPLACE VIEW farrier.node_clocks AS
SELECT c.node_id, c.kind, c.state, c.substate, c.since, l.lasts AS state_limit,
       CASE WHEN c.since + l.lasts < farrier.now() THEN c.since + l.lasts END AS above_since
  FROM (SELECT s.node_id, s.kind, s.state, '' AS substate, s.since, s.site, s.model FROM farrier.node_states s
        UNION ALL
        SELECT n.id, w.kind, w.state, w.substate, w.since, n.site, n.model
          FROM farrier.nodes n
          JOIN farrier.workflow_clocks w ON w.kind = n.live_workflow_kind AND w.id = n.live_workflow_id) c
 CROSS JOIN LATERAL (
       SELECT x.lasts FROM farrier.limits x
        WHERE x.kind = c.kind AND x.state = c.state AND x.substate = c.substate
          AND (x.scope = '' OR x.scope = 'site' AND x.name = c.site OR x.scope = 'model' AND x.name = c.model)
        ORDER BY x.scope DESC LIMIT 1) l
 WHERE c.since IS NOT NULL
   AND ((c.kind, c.state) NOT IN (SELECT s.kind, s.state FROM farrier.clock_stops s)
        OR (SELECT true FROM farrier.still_clocks i WHERE i.node_id = c.node_id AND i.kind = c.kind AND i.state = c.state LIMIT 1) IS NULL);
