-- The node kind's first values become exactly these.
WITH want AS (SELECT * FROM unnest($1::text[], $2::text[]) AS w (layer, value)),
     gone AS (DELETE FROM farrier.initial_values v WHERE v.kind = 'node'
               AND NOT EXISTS (SELECT FROM want w WHERE (w.layer, w.value) = (v.layer, v.value)))
INSERT INTO farrier.initial_values (kind, layer, value) SELECT 'node', layer, value FROM want
    ON CONFLICT DO NOTHING
