-- Records the kinds whose tables are not like farrier.resources, each with its table, the condition of a row that has not ended, and
-- the column of names.
INSERT INTO farrier.kinds AS k (kind, relation, living, named)
SELECT w.kind, w.relation::regclass, w.living, w.named
  FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS w (kind, relation, living, named)
    ON CONFLICT (kind) DO UPDATE SET relation = excluded.relation, living = excluded.living, named = excluded.named
 WHERE (k.relation, k.living, k.named) IS DISTINCT FROM (excluded.relation, excluded.living, excluded.named)
