-- Replaces the limits in force; $1 to $6 are (kind, state, substate, scope, name, lasts).
WITH held AS (
    SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[]::interval[])
                  AS h (kind, state, substate, scope, name, lasts)),
gone AS (
    DELETE FROM farrier.limits l
     WHERE NOT EXISTS (SELECT FROM held h WHERE (h.kind, h.state, h.substate, h.scope, h.name) = (l.kind, l.state, l.substate, l.scope, l.name)))
INSERT INTO farrier.limits AS l SELECT * FROM held ORDER BY 1, 2, 3, 4, 5
    ON CONFLICT (kind, state, substate, scope, name) DO UPDATE SET lasts = excluded.lasts WHERE l.lasts <> excluded.lasts
