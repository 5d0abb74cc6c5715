-- Writes the changed conditions of the nodes of a commit: section `conditions` [{run, source, id, target, message, effect}], and
-- section `ended_conditions` [{run, source, id, target}]. A condition that an agent states exists only while the agent
-- states it, so such a row is changed but not inserted. Called by write_nodes.
CREATE OR REPLACE FUNCTION farrier.write_conditions(changes jsonb) RETURNS void
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
BEGIN
    DELETE FROM node_conditions c USING jsonb_to_recordset(changes -> 'ended_conditions') e (run bigint, source text, id text, target text)
     WHERE (c.node, c.source, c.id, c.target) = (e.run, e.source, e.id, e.target);
    INSERT INTO node_conditions AS c (node, source, id, target, message, effect)
    SELECT n.run, n.source, n.id, n.target, n.message, n.effect
      FROM jsonb_to_recordset(changes -> 'conditions') n (run bigint, source text, id text, target text, message text, effect text)
     WHERE n.source <> 'agent'
        OR EXISTS (SELECT FROM node_conditions o WHERE (o.node, o.source, o.id, o.target) = (n.run, n.source, n.id, n.target))
        ON CONFLICT (node, source, id, target) DO UPDATE
       SET message = excluded.message, effect = excluded.effect, seen_at = farrier.now()
     WHERE (c.message, c.effect) IS DISTINCT FROM (excluded.message, excluded.effect);
END $$;
