-- Returns whether the recorded kind has states of a layer, not terminal, that are missing in this list.
SELECT EXISTS (SELECT FROM farrier.kind_states s WHERE s.kind = $1 AND s.layer = $2 AND NOT s.terminal AND s.state <> ALL ($3::text[]))
