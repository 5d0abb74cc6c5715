-- Returns the snapshots of resources of a kind: the row as JSON, with its pending intents. A kind that needs more data
-- calls this function in its own load statement. Intervals are written as ISO 8601, from which farrier decodes them.
CREATE OR REPLACE FUNCTION farrier.load_resources(of_kind text, ids bigint[]) RETURNS TABLE (id bigint, now timestamptz, snapshot jsonb)
    LANGUAGE plpgsql STABLE SET search_path = farrier, pg_temp SET IntervalStyle = 'iso_8601' AS $$
BEGIN
    RETURN QUERY EXECUTE format(
        'SELECT r.id, farrier.now(), to_jsonb(r) || jsonb_build_object(''requests'', (
             SELECT coalesce(jsonb_agg(jsonb_build_object(''id'', i.id, ''action'', i.action, ''params'', i.params,
                        ''created_at'', i.created_at, ''requested_by'', i.requested_by) ORDER BY i.id), ''[]'')
               FROM farrier.resource_intents i WHERE i.kind = $1 AND i.resource_id = r.id AND i.status = ''pending''))
           FROM %s r WHERE r.id = ANY ($2)', relation_of(of_kind)) USING of_kind, ids;
END $$;
