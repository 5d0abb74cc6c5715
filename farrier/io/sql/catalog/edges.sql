-- Replaces the edges of these kinds.
WITH want AS (SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS w (kind, layer, from_value, to_value)),
     gone AS (DELETE FROM farrier.edges e WHERE e.kind IN (SELECT kind FROM want)
               AND NOT EXISTS (SELECT FROM want w WHERE (w.kind, w.layer, w.from_value, w.to_value) = (e.kind, e.layer, e.from_value, e.to_value)))
INSERT INTO farrier.edges (kind, layer, from_value, to_value) SELECT kind, layer, from_value, to_value FROM want
    ON CONFLICT DO NOTHING
