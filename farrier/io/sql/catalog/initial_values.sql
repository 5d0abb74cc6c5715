-- The first values of these kinds become exactly these.
WITH want AS (SELECT * FROM unnest($1::text[], $2::text[], $3::text[]) AS w (kind, layer, value)),
     gone AS (DELETE FROM farrier.initial_values v WHERE v.kind IN (SELECT kind FROM want)
               AND NOT EXISTS (SELECT FROM want w WHERE (w.kind, w.layer, w.value) = (v.kind, v.layer, v.value)))
INSERT INTO farrier.initial_values (kind, layer, value) SELECT kind, layer, value FROM want
    ON CONFLICT DO NOTHING
