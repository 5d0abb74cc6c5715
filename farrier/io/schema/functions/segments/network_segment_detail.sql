-- Returns what a listing shows of a segment besides its columns: how many addresses are used and free, the last release, and the
-- requester of its deletion. Called through detail_of for each segment of a listing, so the requester is read only if a deletion is
-- recorded.
CREATE OR REPLACE FUNCTION farrier.network_segment_detail(id bigint) RETURNS jsonb
    LANGUAGE plpgsql STABLE AS $$
DECLARE
    used bigint;
    free numeric;
    released timestamptz;
    asked bigint;
    who text;
BEGIN
    SELECT u.allocated, (SELECT sum(p.usable) FROM farrier.segment_prefixes p WHERE p.segment = $1), u.last_released_at, s.delete_request
      INTO used, free, released, asked
      FROM farrier.segment_usage u JOIN farrier.network_segments s ON s.id = u.segment WHERE u.segment = $1;
    IF asked IS NOT NULL THEN
        SELECT i.requested_by INTO who FROM farrier.resource_intents i WHERE i.id = asked;
    END IF;
    RETURN jsonb_build_object('addresses_used', used, 'addresses_free', coalesce(free, 0) - used, 'last_released_at', released, 'delete_asked_by', who);
END $$;
