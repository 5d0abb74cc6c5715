-- Returns the parts [{serial, size}] in a list of the facts of an agent; null if the facts have no such list. A part without a
-- serial number has its UUID instead, as in evidence. Called by expected_devices.
CREATE OR REPLACE FUNCTION farrier.parts_of(listed jsonb) RETURNS jsonb
    LANGUAGE sql IMMUTABLE SET search_path = farrier, pg_temp AS $$
    SELECT CASE WHEN jsonb_typeof(listed) = 'array' THEN (
        SELECT coalesce(jsonb_agg(jsonb_build_object('serial', p.serial, 'size', p.size) ORDER BY p.serial COLLATE "C"), '[]')
          FROM (SELECT DISTINCT coalesce(nullif(e #>> '{serial}', ''), nullif(e #>> '{uuid}', '')) AS serial,
                       CASE WHEN jsonb_typeof(e -> 'size') = 'number' AND e ->> 'size' ~ '^[0-9]{1,18}$' THEN (e ->> 'size')::bigint ELSE 0 END AS size
                  FROM jsonb_array_elements(CASE WHEN jsonb_typeof(listed) = 'array' THEN listed END) e) p
         WHERE p.serial IS NOT NULL) END
$$;
