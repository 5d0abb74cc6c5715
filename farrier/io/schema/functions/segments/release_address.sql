-- Releases an address and returns true; false if it is not allocated, so a repeated call succeeds, even after the
-- segment has ended. Enqueues the segment if it drains; otherwise enqueues the nodes that wait for an address of the
-- segment. FR400 for a null, FR404 for an unknown segment, FR409 for an address of another owner.
CREATE OR REPLACE FUNCTION farrier.release_address(segment text, address inet, owner text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
#variable_conflict use_column
DECLARE
    called text := release_address.segment;
    given inet := host(release_address.address)::inet;
    -- Also finds a segment that has ended, so that a repeated release succeeds.
    here bigint := coalesce(any_resource('network_segment', called), find_resource('network_segment', called));
    usage segment_usage;
    held segment_addresses;
BEGIN
    IF given IS NULL OR release_address.owner IS NULL THEN
        RAISE EXCEPTION 'address and owner must not be null' USING ERRCODE = 'FR400';
    END IF;
    SELECT * INTO usage FROM segment_usage u WHERE u.segment = here FOR NO KEY UPDATE;
    SELECT * INTO held FROM segment_addresses a WHERE a.segment = here AND a.address = given;
    IF NOT FOUND THEN RETURN false; END IF;
    IF held.owner <> release_address.owner THEN
        RAISE EXCEPTION '% of segment % is taken by %, not by %', host(given), called, held.owner, release_address.owner
            USING ERRCODE = 'FR409', HINT = 'Only its owner can release an address.';
    END IF;
    DELETE FROM segment_addresses a WHERE a.segment = here AND a.address = given;
    PERFORM put_back(here, held.prefix, given);
    UPDATE segment_usage u SET allocated = u.allocated - 1 WHERE u.segment = here;
    IF usage.open THEN
        PERFORM wake_users('network_segment', s.name) FROM network_segments s WHERE s.id = here;
    ELSE
        PERFORM enqueue('network_segment', here);
    END IF;
    RETURN true;
END $$;
