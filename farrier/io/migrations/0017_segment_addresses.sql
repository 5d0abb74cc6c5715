-- How the addresses of network segments are given out and given back.

-- Takes one free address, or the one that is wanted, out of a range of free ones.
CREATE FUNCTION farrier.take_from(gap farrier.segment_free, taken inet) RETURNS void
    LANGUAGE plpgsql AS $$
BEGIN
    IF gap.first = gap.last THEN
        DELETE FROM farrier.segment_free f WHERE f.segment = gap.segment AND f.last = gap.last;
    ELSIF taken = gap.first THEN
        UPDATE farrier.segment_free f SET first = taken + 1 WHERE f.segment = gap.segment AND f.last = gap.last;
    ELSIF taken = gap.last THEN
        UPDATE farrier.segment_free f SET last = taken - 1 WHERE f.segment = gap.segment AND f.last = gap.last;
    ELSE
        UPDATE farrier.segment_free f SET first = taken + 1 WHERE f.segment = gap.segment AND f.last = gap.last;
        INSERT INTO farrier.segment_free VALUES (gap.segment, gap.prefix, gap.first, taken - 1);
    END IF;
END $$;

-- Puts an address back, joined to the free ranges of its prefix that it touches.
CREATE FUNCTION farrier.put_back(of_segment bigint, of_prefix cidr, back inet) RETURNS void
    LANGUAGE plpgsql AS $$
DECLARE
    low inet := back;
    next farrier.segment_free;
BEGIN
    -- Nothing lies beside an address that is the first or last of its prefix.
    IF back > host(network(of_prefix))::inet THEN
        DELETE FROM farrier.segment_free f WHERE f.segment = of_segment AND f.last = back - 1 AND f.prefix = of_prefix
        RETURNING f.first INTO low;
        low := coalesce(low, back);
    END IF;
    IF back < host(broadcast(of_prefix))::inet THEN
        SELECT * INTO next FROM farrier.segment_free f WHERE f.segment = of_segment AND f.last > back ORDER BY f.last LIMIT 1;
        IF next.prefix = of_prefix AND next.first = back + 1 THEN
            UPDATE farrier.segment_free f SET first = low WHERE f.segment = of_segment AND f.last = next.last;
            RETURN;
        END IF;
    END IF;
    INSERT INTO farrier.segment_free VALUES (of_segment, of_prefix, low, back);
END $$;

-- Why an address that is wanted cannot be had; it is in one of the prefixes, and in no free range.
CREATE FUNCTION farrier.why_not_free(of_segment bigint, of_prefix cidr, wanted inet) RETURNS text
    LANGUAGE sql STABLE
    RETURN coalesce(
        (SELECT format('is taken by %s', a.owner) FROM farrier.segment_addresses a WHERE a.segment = of_segment AND a.address = wanted),
        (SELECT CASE WHEN p.gateway = wanted THEN format('is the gateway of %s', p.prefix)
                     WHEN wanted NOT BETWEEN h.first AND h.last THEN format('is the network or broadcast address of %s', p.prefix)
                     ELSE format('is reserved; %s gives out %s to %s', p.prefix, host(p.first), host(p.last)) END
           FROM farrier.segment_prefixes p CROSS JOIN LATERAL farrier.hosts_of(p.prefix) h
          WHERE p.segment = of_segment AND p.prefix = of_prefix));

-- An address of a ready segment: the lowest that is free, the lowest of the prefix that is wanted, or the very address that
-- is wanted. An owner has one of each family; asking again gives the same. Requests for one segment take turns, each until
-- its transaction ends, so ask late in a transaction, and for several segments in one order.
CREATE FUNCTION farrier.allocate_address(segment text, owner text, wanted inet DEFAULT NULL, node bigint DEFAULT NULL) RETURNS inet
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
    IF who IS NULL OR who !~ '\S' OR char_length(who) > 253 THEN
        RAISE EXCEPTION 'an address has an owner: a text of 1 to 253 characters, not blank' USING ERRCODE = 'FR400';
    END IF;
    IF allocate_address.node IS NOT NULL AND NOT EXISTS (SELECT FROM nodes n WHERE n.id = allocate_address.node AND n.status <> 'deleted') THEN
        RAISE EXCEPTION 'no node has id %', allocate_address.node USING ERRCODE = 'FR404', HINT = 'Leave it out if it is for no node.';
    END IF;
    SELECT * INTO usage FROM segment_usage u WHERE u.segment = here FOR NO KEY UPDATE;
    SELECT a.address INTO mine FROM segment_addresses a
     WHERE a.segment = here AND a.owner = who AND (wanted IS NULL OR family(a.address) = family(wanted)) ORDER BY a.address LIMIT 1;
    IF FOUND THEN
        IF wanted IS NOT NULL AND NOT mine <<= wanted THEN
            RAISE EXCEPTION '% has % of segment %; % is another', who, host(mine), called, wanted
                USING ERRCODE = 'FR409', HINT = 'farrier.release_address() gives that one back; another owner may have another.';
        END IF;
        UPDATE segment_addresses a SET node = allocate_address.node
         WHERE a.segment = here AND a.address = mine AND allocate_address.node IS NOT NULL AND a.node IS DISTINCT FROM allocate_address.node;
        RETURN mine;
    END IF;
    SELECT s.state INTO state FROM network_segments s WHERE s.id = here;
    IF NOT usage.open OR state = 'provisioning' THEN
        RAISE EXCEPTION 'segment % is %; addresses are given out in state ready', called, state
            USING ERRCODE = 'FR409', HINT = 'One that is being deleted gives out no more; one that is being provisioned is ready in a moment.';
    END IF;
    IF wanted IS NOT NULL THEN
        SELECT p.prefix INTO within FROM segment_prefixes p
         WHERE p.segment = here AND CASE WHEN exact THEN p.prefix >>= wanted ELSE p.prefix::inet = wanted END;
        IF NOT FOUND THEN
            RAISE EXCEPTION '% is neither in a prefix of segment % nor one of them: %', wanted, called,
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
            USING ERRCODE = 'FR409', HINT = 'An update of the segment adds prefixes.';
    END IF;
    mine := CASE WHEN exact THEN wanted ELSE gap.first END;
    PERFORM take_from(gap, mine);
    INSERT INTO segment_addresses (segment, address, prefix, owner, node) VALUES (here, mine, gap.prefix, who, allocate_address.node);
    UPDATE segment_usage u SET allocated = u.allocated + 1 WHERE u.segment = here;
    RETURN mine;
END $$;

-- An address is back when others see that it is: a drain counts from the COMMIT, however long the transaction was.
CREATE FUNCTION farrier.mark_release() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    UPDATE segment_usage u SET last_released_at = farrier.now()
     WHERE u.segment = NEW.segment AND (u.last_released_at IS NULL OR u.last_released_at < farrier.now());
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER mark_release AFTER UPDATE ON farrier.segment_usage
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.allocated < OLD.allocated) EXECUTE FUNCTION farrier.mark_release();

-- Gives an address back: true if it was the owner's until now, false if it was nobody's. Wakes a segment that drains.
CREATE FUNCTION farrier.release_address(segment text, address inet, owner text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
#variable_conflict use_column
DECLARE
    called text := release_address.segment;
    given inet := host(release_address.address)::inet;
    here bigint;
    usage segment_usage;
    held segment_addresses;
BEGIN
    -- One that has ended has no addresses any more: a release that comes again is no mistake.
    IF called ~ '^[0-9]{1,18}$' THEN
        SELECT s.id INTO here FROM network_segments s WHERE s.id = called::bigint;
    ELSE
        SELECT s.id INTO here FROM network_segments s WHERE s.name = called AND s.ended_at IS NULL;
        IF here IS NULL THEN
            SELECT s.id INTO here FROM network_segments s WHERE s.name = called AND s.ended_at IS NOT NULL ORDER BY s.id DESC LIMIT 1;
        END IF;
    END IF;
    IF here IS NULL THEN here := find_resource('network_segment', called); END IF;
    IF given IS NULL OR release_address.owner IS NULL THEN
        RAISE EXCEPTION 'which address, and whose? Neither may be null' USING ERRCODE = 'FR400';
    END IF;
    SELECT * INTO usage FROM segment_usage u WHERE u.segment = here FOR NO KEY UPDATE;
    SELECT * INTO held FROM segment_addresses a WHERE a.segment = here AND a.address = given;
    IF NOT FOUND THEN RETURN false; END IF;
    IF held.owner <> release_address.owner THEN
        RAISE EXCEPTION '% of segment % is taken by %, not by %', host(given), called, held.owner, release_address.owner
            USING ERRCODE = 'FR409', HINT = 'Only its owner gives an address back.';
    END IF;
    DELETE FROM segment_addresses a WHERE a.segment = here AND a.address = given;
    PERFORM put_back(here, held.prefix, given);
    UPDATE segment_usage u SET allocated = u.allocated - 1 WHERE u.segment = here;
    IF NOT usage.open THEN PERFORM enqueue('network_segment', here); END IF;
    RETURN true;
END $$;

-- What a listing shows of a segment besides its columns: how much of it is used, and who asked for its end. Called once for
-- each segment of a listing, so one statement says all, and a second one only who asked.
CREATE FUNCTION farrier.network_segment_detail(id bigint) RETURNS jsonb
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

-- Who has addresses of a segment, by name or id, since when; an ended one has none.
CREATE FUNCTION farrier.list_addresses(segment text)
    RETURNS TABLE (address inet, prefix cidr, owner text, node bigint, allocated_at timestamptz)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
    SELECT a.address, a.prefix, a.owner, a.node, a.allocated_at FROM segment_addresses a
     WHERE a.segment = find_resource('network_segment', $1) ORDER BY a.address;
$$;

SELECT farrier.let_call(r, 'farrier.list_addresses(text)') FROM unnest('{farrier_intents,farrier_reader}'::text[]) r;
SELECT farrier.let_call('farrier_intents', 'farrier.allocate_address(text,text,inet,bigint)');
SELECT farrier.let_call('farrier_intents', 'farrier.release_address(text,inet,text)');
SELECT farrier.grant_rights();
