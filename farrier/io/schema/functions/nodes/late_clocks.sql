-- Returns the clocks of nodes that exceed their limit at `at`, and by how much. Elements of the six arrays with the same position
-- are one limit in force, as in farrier.limits; `place` is the first position that has the state of the clock. An index finds the
-- clocks that are older than the shortest limit of their state. The planner inlines the function.
CREATE OR REPLACE FUNCTION farrier.late_clocks(
    kinds text[], states text[], substates text[], scopes text[], names text[], lasts interval[], at timestamptz)
    RETURNS TABLE (place integer, node_id bigint, paused boolean, excess interval) LANGUAGE sql STABLE AS $$
    -- For each state: the shortest limit of any node or workflow there, the limits by model and site, and whether a clock may
    -- stand still there.
    WITH floors AS MATERIALIZED (
        SELECT min(l.place)::integer AS place, l.kind, l.state, l.substate, min(l.lasts) AS lasts, min(l.lasts) FILTER (WHERE l.scope = '') AS usual,
               jsonb_object_agg(l.name, l.lasts) FILTER (WHERE l.scope = 'model') AS models,
               jsonb_object_agg(l.name, l.lasts) FILTER (WHERE l.scope = 'site') AS sites,
               EXISTS (SELECT FROM farrier.clock_stops s WHERE s.kind = l.kind AND s.state = l.state) AS stops
          FROM unnest($1, $2, $3, $4, $5, $6) WITH ORDINALITY AS l (kind, state, substate, scope, name, lasts, place)
         GROUP BY l.kind, l.state, l.substate),
    workflows AS MATERIALIZED (
        SELECT w.kind, w.id, w.node_id, w.state, w.substate, w.since, w.being_cancelled
          FROM farrier.workflow_clocks w WHERE w.ended_at IS NULL),
    late AS (
        SELECT f.place, n.node_id, n.paused, n.since, n.site, n.model
          FROM floors f CROSS JOIN LATERAL (
               SELECT x.node_id, x.paused, x.since, x.site, x.model FROM farrier.node_states x
                WHERE x.kind = f.kind AND x.state = f.state AND x.since < $7 - f.lasts
                  AND (NOT f.stops OR (SELECT true FROM farrier.still_clocks s WHERE s.node_id = x.node_id AND s.kind = f.kind AND s.state = f.state LIMIT 1) IS NULL)
               OFFSET 0) n
        UNION ALL
        SELECT w.place, w.node_id, n.paused IS NOT NULL AND NOT n.deleting AND NOT w.being_cancelled AS paused, w.since, n.site, n.model
          FROM (SELECT f.place, w.kind, w.id, w.node_id, w.being_cancelled, w.since
                  FROM floors f JOIN workflows w USING (kind, state, substate)
                 WHERE w.since < $7 - f.lasts
                   AND (NOT f.stops OR (SELECT true FROM farrier.still_clocks s WHERE s.node_id = w.node_id AND s.kind = f.kind AND s.state = f.state LIMIT 1) IS NULL)) w
          JOIN farrier.nodes n ON n.id = w.node_id AND n.live_workflow_kind = w.kind AND n.live_workflow_id = w.id)
    SELECT c.place, c.node_id, c.paused, c.excess
      FROM (SELECT l.place, l.node_id, l.paused,
                   $7 - l.since - coalesce((f.sites ->> l.site)::interval, (f.models ->> l.model)::interval, f.usual) AS excess
              FROM late l JOIN floors f USING (place) OFFSET 0) c
     WHERE c.excess > '0'
$$;
