-- Adds limits that no controller has written yet; columns as in limits.sql.
INSERT INTO farrier.limits
SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[]::interval[])
    ON CONFLICT (kind, state, substate, scope, name) DO NOTHING
