-- What a listing shows of a segment besides its columns: how much of it is used, and who asked for its end. Called once for
-- each segment of a listing, so one statement says all, and a second one only who asked.
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
