-- Returns a layer of another installed kind with one of these labels.
SELECT l.kind, l.layer, l.label FROM farrier.kind_layers l WHERE l.kind <> $1 AND l.label = ANY ($2::text[]) ORDER BY l.kind, l.layer LIMIT 1
