-- Allocates an address of a ready segment and returns it: the lowest free address of the segment, the lowest free
-- address of the prefix in `wanted`, or exactly the address in `wanted`. An owner has one address of each family, so a
-- repeated call returns the same address, and records the node if the call names one. Locks the segment's row of
-- segment_usage until the transaction ends: allocations of one segment take turns. Call it late in a transaction, and
-- for several segments always in the same order. FR400 for malformed arguments, FR404 for an unknown segment or node,
-- FR409 for a segment that is not ready or has no free address, and for a wanted address that is not free.
CREATE OR REPLACE FUNCTION farrier.allocate_address(segment text, owner text, wanted inet DEFAULT NULL, node bigint DEFAULT NULL) RETURNS inet
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
#variable_conflict use_column
DECLARE
    here bigint := find_resource('network_segment', allocate_address.segment);
    called text := allocate_address.segment;
    who text := allocate_address.owner;
    usage segment_usage;
    state text;
    within cidr;
    exact boolean := coalesce(masklen(wanted) = CASE family(wanted) WHEN 4 THEN 32 ELSE 128 END, false);
    mine inet;
    gap segment_free;
BEGIN
    IF who IS NULL OR who !~ E'\\S' OR char_length(who) > 253 THEN
        RAISE EXCEPTION 'owner must be a text of 1 to 253 characters, not blank' USING ERRCODE = 'FR400';
    END IF;
    IF allocate_address.node IS NOT NULL AND NOT EXISTS (SELECT FROM nodes n WHERE n.id = allocate_address.node AND n.status <> 'deleted') THEN
        RAISE EXCEPTION 'no node has ID %', allocate_address.node USING ERRCODE = 'FR404', HINT = 'Omit the ID if the address is not for a node.';
    END IF;
    SELECT * INTO usage FROM segment_usage u WHERE u.segment = here FOR NO KEY UPDATE;
    SELECT a.address INTO mine FROM segment_addresses a
     WHERE a.segment = here AND a.owner = who AND (wanted IS NULL OR family(a.address) = family(wanted)) ORDER BY a.address LIMIT 1;
    IF FOUND THEN
        IF wanted IS NOT NULL AND NOT mine <<= wanted THEN
            RAISE EXCEPTION '% already has address % of segment %, and cannot also get %', who, host(mine), called, wanted
                USING ERRCODE = 'FR409', HINT = 'Release that address first with farrier.release_address(), or use another owner.';
        END IF;
        UPDATE segment_addresses a SET node = allocate_address.node
         WHERE a.segment = here AND a.address = mine AND allocate_address.node IS NOT NULL AND a.node IS DISTINCT FROM allocate_address.node;
        RETURN mine;
    END IF;
    SELECT s.state INTO state FROM network_segments s WHERE s.id = here;
    IF NOT usage.open OR state = 'provisioning' THEN
        RAISE EXCEPTION 'segment % is %; addresses can only be allocated in state ready', called, state
            USING ERRCODE = 'FR409', HINT = 'A provisioning segment becomes ready at once; a deleting one allocates no more addresses.';
    END IF;
    IF wanted IS NOT NULL THEN
        SELECT p.prefix INTO within FROM segment_prefixes p
         WHERE p.segment = here AND CASE WHEN exact THEN p.prefix >>= wanted ELSE p.prefix::inet = wanted END;
        IF NOT FOUND THEN
            RAISE EXCEPTION '% is neither a prefix of segment % nor an address in one; its prefixes are %', wanted, called,
                (SELECT string_agg(p.prefix::text, ', ' ORDER BY p.prefix) FROM segment_prefixes p WHERE p.segment = here)
                USING ERRCODE = 'FR400';
        END IF;
    END IF;
    SELECT * INTO gap FROM segment_free f
     WHERE f.segment = here AND (wanted IS NULL OR f.last >= host(wanted)::inet) ORDER BY f.last LIMIT 1;
    IF exact AND (gap.first IS NULL OR gap.first > wanted) THEN
        RAISE EXCEPTION '% of segment % %', host(wanted), called, why_not_free(here, within, wanted) USING ERRCODE = 'FR409';
    ELSIF gap.first IS NULL OR gap.prefix <> within THEN
        RAISE EXCEPTION '% is full: all its % addresses are allocated',
            CASE WHEN within IS NULL THEN 'segment ' || called ELSE format('prefix %s of segment %s', within, called) END,
            (SELECT sum(p.usable) FROM segment_prefixes p WHERE p.segment = here AND (within IS NULL OR p.prefix = within))
            USING ERRCODE = 'FR409', HINT = 'To add prefixes, submit update for the segment.';
    END IF;
    mine := CASE WHEN exact THEN wanted ELSE gap.first END;
    PERFORM take_from(gap, mine);
    INSERT INTO segment_addresses (segment, address, prefix, owner, node) VALUES (here, mine, gap.prefix, who, allocate_address.node);
    UPDATE segment_usage u SET allocated = u.allocated + 1 WHERE u.segment = here;
    RETURN mine;
END $$;
