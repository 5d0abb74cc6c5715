-- Makes the node's conditions of source agent those of this report. A condition that an operator has released stays released,
-- as long as the agent reports it and requests the same effect. Returns whether the set of conditions or a requested effect changes.
-- Called by record_beat.
CREATE OR REPLACE FUNCTION farrier.note_health(of_node bigint, health jsonb) RETURNS boolean
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
DECLARE
    turns boolean := EXISTS (
        SELECT FROM (SELECT c.id, c.target, c.requested FROM node_conditions c WHERE c.node = of_node AND c.source = 'agent') c
          FULL JOIN health_conditions(health) h ON (h.id, h.target) = (c.id, c.target)
         WHERE c.requested IS DISTINCT FROM h.requested);
BEGIN
    DELETE FROM node_conditions c
     WHERE c.node = of_node AND c.source = 'agent'
       AND NOT EXISTS (SELECT FROM health_conditions(health) h WHERE (h.id, h.target) = (c.id, c.target));
    INSERT INTO node_conditions AS c (node, source, id, target, message, requested)
    SELECT of_node, 'agent', h.id, h.target, h.message, h.requested
      FROM health_conditions(health) h
        ON CONFLICT (node, source, id, target) DO UPDATE
       SET message = excluded.message, requested = excluded.requested, seen_at = farrier.now(),
           released = c.released AND c.requested = excluded.requested
     WHERE (c.message, c.requested) IS DISTINCT FROM (excluded.message, excluded.requested);
    RETURN turns;
END $$;
