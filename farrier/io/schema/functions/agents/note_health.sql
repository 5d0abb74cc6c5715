-- Makes the node's conditions of source agent those of this report. An effect that an operator has lowered by a release stays, as
-- long as the agent reports the condition without a change of the effect; was is the report before. Called by record_beat.
CREATE OR REPLACE FUNCTION farrier.note_health(of_node bigint, was jsonb, health jsonb) RETURNS void
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
BEGIN
    DELETE FROM node_conditions c
     WHERE c.node = of_node AND c.source = 'agent'
       AND NOT EXISTS (SELECT FROM health_conditions(health) h WHERE (h.id, h.target) = (c.id, c.target));
    INSERT INTO node_conditions AS c (node, source, id, target, message, effect)
    SELECT of_node, 'agent', h.id, h.target, h.message, coalesce(kept.effect, h.effect)
      FROM health_conditions(health) h
      LEFT JOIN LATERAL (
           SELECT o.effect FROM node_conditions o JOIN health_conditions(was) w ON (w.id, w.target) = (o.id, o.target) AND w.effect = h.effect
            WHERE o.node = of_node AND o.source = 'agent' AND (o.id, o.target) = (h.id, h.target)) kept ON true
        ON CONFLICT (node, source, id, target) DO UPDATE
       SET message = excluded.message, effect = excluded.effect, seen_at = farrier.now()
     WHERE (c.message, c.effect) IS DISTINCT FROM (excluded.message, excluded.effect);
END $$;
