-- Returns the INSERT of an intent with this api_version, for the hint of an error.
CREATE OR REPLACE FUNCTION farrier.insert_with_version(intent farrier.intents, api_version integer) RETURNS text
    LANGUAGE sql IMMUTABLE SET search_path = farrier, pg_temp AS $$
    SELECT format('INSERT INTO farrier.intents (%s) VALUES (%s);',
                  string_agg(c.name, ', ' ORDER BY c.place), string_agg(c.written, ', ' ORDER BY c.place))
      FROM (VALUES (1, 'node', quote_literal(intent.node)), (2, 'action', quote_literal(intent.action)),
                   (3, 'params', CASE WHEN intent.params <> '{}' THEN quote_literal(intent.params::text) END),
                   (4, 'idempotency_key', quote_literal(intent.idempotency_key)),
                   (5, 'requested_by', quote_literal(intent.requested_by)),
                   (6, 'api_version', api_version::text)) AS c (place, name, written)
     WHERE c.written IS NOT NULL
$$;
