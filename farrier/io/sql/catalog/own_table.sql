-- Records a kind whose table is not like farrier.resources, with its table, the condition of a row that has not ended, and the column
-- of names.
INSERT INTO farrier.kinds AS k (kind, relation, living, named) VALUES ($1, $2::text::regclass, $3, $4)
    ON CONFLICT (kind) DO UPDATE SET relation = excluded.relation, living = excluded.living, named = excluded.named
 WHERE (k.relation, k.living, k.named) IS DISTINCT FROM (excluded.relation, excluded.living, excluded.named)
