-- Replaces the layers of these kinds.
WITH want AS (SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS w (kind, layer, label, relation)),
     gone AS (DELETE FROM farrier.kind_layers l WHERE l.kind IN (SELECT kind FROM want)
               AND NOT EXISTS (SELECT FROM want w WHERE (w.kind, w.layer) = (l.kind, l.layer)))
INSERT INTO farrier.kind_layers (kind, layer, label, relation) SELECT kind, layer, label, nullif(relation, '')::regclass FROM want
    ON CONFLICT (kind, layer) DO UPDATE SET label = excluded.label, relation = excluded.relation
