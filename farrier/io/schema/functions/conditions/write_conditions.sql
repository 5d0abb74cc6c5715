-- Writes the changed conditions of the nodes of a commit: section `conditions` [{run, source, id, target, message, requested,
-- effect, released}], and section `ended_conditions` [{run, source, id, target}]. Agents and monitors state their
-- conditions themselves, so of such a row only the run's decision is written, and only if the source still requests what
-- the run has read. Each row is found by its key: a join that was planned while the table was empty would read all
-- conditions. Called by write_nodes.
CREATE OR REPLACE FUNCTION farrier.write_conditions(changes jsonb) RETURNS void
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
DECLARE
    one record;
BEGIN
    FOR one IN SELECT * FROM jsonb_to_recordset(changes -> 'ended_conditions') e (run bigint, source text, id text, target text) LOOP
        DELETE FROM node_conditions c WHERE (c.node, c.source, c.id, c.target) = (one.run, one.source, one.id, one.target);
    END LOOP;
    FOR one IN
        SELECT * FROM jsonb_to_recordset(changes -> 'conditions')
               n (run bigint, source text, id text, target text, message text, requested text, effect text, released boolean)
    LOOP
        IF one.source = 'agent' OR starts_with(one.source, 'monitor:') THEN
            UPDATE node_conditions c SET effect = one.effect, released = one.released, seen_at = farrier.now()
             WHERE (c.node, c.source, c.id, c.target) = (one.run, one.source, one.id, one.target) AND c.requested = one.requested
               AND (c.effect, c.released) IS DISTINCT FROM (one.effect, one.released);
        ELSE
            INSERT INTO node_conditions AS c (node, source, id, target, message, requested, effect, released)
            VALUES (one.run, one.source, one.id, one.target, one.message, one.requested, one.effect, one.released)
                ON CONFLICT (node, source, id, target) DO UPDATE
               SET message = excluded.message, requested = excluded.requested, effect = excluded.effect, released = excluded.released,
                   seen_at = farrier.now()
             WHERE (c.message, c.requested, c.effect, c.released)
                   IS DISTINCT FROM (excluded.message, excluded.requested, excluded.effect, excluded.released);
        END IF;
    END LOOP;
END $$;
