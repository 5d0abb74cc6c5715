-- The kinds whose tables are not like farrier.resources: each with its table and the condition of a row that has not ended.
INSERT INTO farrier.kinds AS k (kind, relation, living)
SELECT w.kind, w.relation::regclass, w.living FROM unnest($1::text[], $2::text[], $3::text[]) AS w (kind, relation, living)
    ON CONFLICT (kind) DO UPDATE SET relation = excluded.relation, living = excluded.living
 WHERE (k.relation, k.living) IS DISTINCT FROM (excluded.relation, excluded.living)
