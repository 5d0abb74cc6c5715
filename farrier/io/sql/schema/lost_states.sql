-- Whether a kind, as it is known, lets a layer of resources live in states that are not among these.
SELECT EXISTS (SELECT FROM farrier.kind_states s WHERE s.kind = $1 AND s.layer = $2 AND NOT s.terminal AND s.state <> ALL ($3::text[]))
