-- Writes the changed conditions of the nodes of a commit: section `conditions` [{run, source, id, target, message, requested,
-- effect, released}], and section `ended_conditions` [{run, source, id, target}]. Agents and monitors state their
-- conditions themselves, so of such a row only the run's decision is written, and only if the source still requests what
-- the run has read. Called by write_nodes.
CREATE OR REPLACE FUNCTION farrier.write_conditions(changes jsonb) RETURNS void
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
BEGIN
    DELETE FROM node_conditions c USING jsonb_to_recordset(changes -> 'ended_conditions') e (run bigint, source text, id text, target text)
     WHERE (c.node, c.source, c.id, c.target) = (e.run, e.source, e.id, e.target);
    UPDATE node_conditions c SET effect = n.effect, released = n.released, seen_at = farrier.now()
      FROM jsonb_to_recordset(changes -> 'conditions') n (run bigint, source text, id text, target text, requested text, effect text, released boolean)
     WHERE (c.node, c.source, c.id, c.target, c.requested) = (n.run, n.source, n.id, n.target, n.requested)
       AND (n.source = 'agent' OR starts_with(n.source, 'monitor:'))
       AND (c.effect, c.released) IS DISTINCT FROM (n.effect, n.released);
    INSERT INTO node_conditions AS c (node, source, id, target, message, requested, effect, released)
    SELECT n.run, n.source, n.id, n.target, n.message, n.requested, n.effect, n.released
      FROM jsonb_to_recordset(changes -> 'conditions')
           n (run bigint, source text, id text, target text, message text, requested text, effect text, released boolean)
     WHERE n.source <> 'agent' AND NOT starts_with(n.source, 'monitor:')
        ON CONFLICT (node, source, id, target) DO UPDATE
       SET message = excluded.message, requested = excluded.requested, effect = excluded.effect, released = excluded.released,
           seen_at = farrier.now()
     WHERE (c.message, c.requested, c.effect, c.released)
           IS DISTINCT FROM (excluded.message, excluded.requested, excluded.effect, excluded.released);
END $$;
