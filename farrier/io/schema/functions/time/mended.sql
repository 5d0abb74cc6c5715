-- Returns JSON in which each time beyond now is replaced by the rules of mend; name is the field that has the value. Times of logins
-- (tries, trying) become earlier by the length of the setback, as future times do: they identify the logins, so their distances must
-- not change.
CREATE OR REPLACE FUNCTION farrier.mended(value jsonb, now timestamptz, back interval, name text) RETURNS jsonb
    LANGUAGE plpgsql IMMUTABLE SET search_path = farrier, pg_temp AS $$
DECLARE
    at timestamptz;
BEGIN
    IF jsonb_typeof(value) = 'object' THEN
        RETURN (SELECT coalesce(jsonb_object_agg(e.key, farrier.mended(e.value, $2, back, CASE $4 WHEN 'unreadable' THEN 'next_at' ELSE e.key END)), '{}')
                  FROM jsonb_each(value) e);
    ELSIF jsonb_typeof(value) = 'array' THEN
        RETURN (SELECT coalesce(jsonb_agg(farrier.mended(e.value, $2, back, $4) ORDER BY e.ordinality), '[]')
                  FROM jsonb_array_elements(value) WITH ORDINALITY e);
    ELSIF jsonb_typeof(value) <> 'string' OR NOT farrier.is_a_time($4)
       OR value #>> '{}' !~ E'^\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d(\\.\\d+)?(Z|[+-]\\d\\d:\\d\\d)$' THEN
        RETURN value;
    END IF;
    at := value #>> '{}';
    RETURN CASE WHEN at <= $2 THEN value
                WHEN farrier.is_of_the_future($4) OR $4 IN ('tries', 'trying') THEN to_jsonb(at - back)
                ELSE to_jsonb($2) END;
END $$;
