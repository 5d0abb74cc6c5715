-- Makes the rows of a table of the model equal to `wanted`, an array of objects with the table's columns. With of_kinds, rows of other
-- kinds stay. Writes only the rows that differ. Called by migrations and by installations of kinds.
CREATE OR REPLACE FUNCTION farrier.replace_rows(relation regclass, wanted jsonb, of_kinds text[] DEFAULT NULL) RETURNS void
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
BEGIN
    EXECUTE format('DELETE FROM %1$s r WHERE %2$s AND NOT EXISTS (SELECT FROM jsonb_populate_recordset(NULL::%1$s, $1) w WHERE w = r)',
                   relation, CASE WHEN of_kinds IS NULL THEN 'true' ELSE 'r.kind = ANY ($2)' END) USING wanted, of_kinds;
    EXECUTE format('INSERT INTO %1$s SELECT * FROM jsonb_populate_recordset(NULL::%1$s, $1) ON CONFLICT DO NOTHING', relation) USING wanted;
END $$;
