-- Adds to a health report the note clock_offset if the machine's clock (seconds since 1970) is more than a minute wrong. The
-- text names no exact offset, so that it does not change with each heartbeat. Called by take_beats.
CREATE OR REPLACE FUNCTION farrier.with_clock(health jsonb, clock double precision) RETURNS jsonb
    LANGUAGE plpgsql STABLE SET search_path = farrier, pg_temp AS $$
DECLARE
    ahead double precision := clock - extract(epoch FROM farrier.now());
BEGIN
    IF abs(ahead) > 60 THEN
        RETURN jsonb_set(health, '{alerts}', coalesce(health -> 'alerts', '[]') || jsonb_build_object('id', 'clock_offset', 'message',
            format('the clock of the machine is more than %s %s the clock of the database',
                   CASE WHEN abs(ahead) > 86400 THEN 'a day' WHEN abs(ahead) > 3600 THEN 'an hour' ELSE 'a minute' END,
                   CASE WHEN ahead > 0 THEN 'ahead of' ELSE 'behind' END)));
    END IF;
    RETURN health;
END $$;
