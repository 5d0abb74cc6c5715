-- Returns the SQL expression for the model of a row r of a kind's table: column model, or null if the table has none.
-- Limits may depend on the model.
CREATE OR REPLACE FUNCTION farrier.model_of(relation regclass) RETURNS text
    LANGUAGE sql STABLE SET search_path = farrier, pg_temp AS $$
    SELECT CASE WHEN EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = relation AND a.attname = 'model' AND NOT a.attisdropped)
                THEN 'r.model::text' ELSE 'NULL::text' END
$$;
