-- Makes room for one more condition of a source of a node: a source may have 200. The oldest notes of this source end.
-- Returns how many, or null if there are too few, because a condition that requests quarantine never ends so. Called by
-- state_condition.
CREATE OR REPLACE FUNCTION farrier.make_room(of_node bigint, by_source text) RETURNS integer
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
DECLARE
    excess integer := (SELECT count(*) FROM node_conditions c WHERE (c.node, c.source) = (of_node, by_source)) + 1
                      - (read_constants()).conditions_of_source;
    notes  integer;
BEGIN
    IF excess <= 0 THEN RETURN 0; END IF;
    notes := (SELECT count(*) FROM node_conditions c WHERE (c.node, c.source, c.requested) = (of_node, by_source, 'note'));
    IF notes < excess THEN RETURN NULL; END IF;
    DELETE FROM node_conditions c
     WHERE (c.node, c.source) = (of_node, by_source)
       AND (c.id, c.target) IN (
           SELECT o.id, o.target FROM node_conditions o
            WHERE (o.node, o.source) = (of_node, by_source) AND o.requested = 'note'
            ORDER BY o.since, o.id, o.target LIMIT excess);
    RETURN excess;
END $$;
