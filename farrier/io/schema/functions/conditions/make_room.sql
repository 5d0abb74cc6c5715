-- Makes room for one more condition of a source of a node: a source may have 200. The oldest notes of this source end, and are counted
-- in condition_drops. A condition that requests quarantine never ends so: FR409 if there is no such note. Called by state_condition.
CREATE OR REPLACE FUNCTION farrier.make_room(of_node bigint, by_source text) RETURNS void
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
DECLARE
    most   integer := (read_constants()).conditions_of_source;
    excess integer := (SELECT count(*) FROM node_conditions c WHERE (c.node, c.source) = (of_node, by_source)) + 1 - most;
    ended  integer;
BEGIN
    IF excess <= 0 THEN RETURN; END IF;
    DELETE FROM node_conditions c
     WHERE (c.node, c.source) = (of_node, by_source)
       AND (c.id, c.target) IN (
           SELECT o.id, o.target FROM node_conditions o
            WHERE (o.node, o.source) = (of_node, by_source) AND o.requested = 'note'
            ORDER BY o.since, o.id, o.target LIMIT excess);
    GET DIAGNOSTICS ended = ROW_COUNT;
    IF ended < excess THEN
        RAISE EXCEPTION 'the node has % conditions of source %, which all request quarantine; end one of them first', most, by_source
            USING ERRCODE = 'FR409';
    END IF;
    INSERT INTO condition_drops AS d (source, dropped) VALUES (by_source, ended)
        ON CONFLICT (source) DO UPDATE SET dropped = d.dropped + excluded.dropped;
END $$;
