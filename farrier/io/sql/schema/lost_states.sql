-- Returns whether resources may be in states that are missing in this list of states that are not terminal: the recorded kind has such a
-- state of the layer, or has no states of the layer, because the layer is new.
SELECT bool_and(s.terminal OR s.state = ANY ($3::text[])) IS NOT TRUE FROM farrier.kind_states s WHERE s.kind = $1 AND s.layer = $2
