-- Network segments: their prefixes, who has which address of them, and their VLANs and VNIs.

CREATE TABLE farrier.network_segments (
    LIKE farrier.resources INCLUDING ALL,
    prefixes        text[]      NOT NULL,               -- as PostgreSQL spells them; segment_prefixes follows
    gateways        text[]      NOT NULL DEFAULT '{}',  -- each of one of them
    reserved_first  integer     NOT NULL DEFAULT 0 CHECK (reserved_first BETWEEN 0 AND 65536),
    reserved_last   integer     NOT NULL DEFAULT 0 CHECK (reserved_last BETWEEN 0 AND 65536),
    vlan            integer     CHECK (vlan BETWEEN 1 AND 4094),
    vni             integer     CHECK (vni BETWEEN 1 AND 16777215),
    mtu             integer     NOT NULL DEFAULT 1500 CHECK (mtu BETWEEN 576 AND 9216),
    drain_until     timestamptz,
    delete_asked_at timestamptz,
    delete_request  bigint,                             -- of farrier.resource_intents: who asked
    CONSTRAINT segment_has_site CHECK (site IS NOT NULL)
);
-- Also where there is no pool: two networks with one tag are one network.
CREATE UNIQUE INDEX network_segments_vlan ON farrier.network_segments (site, vlan) WHERE ended_at IS NULL;
CREATE UNIQUE INDEX network_segments_vni ON farrier.network_segments (vni) WHERE ended_at IS NULL;
CREATE INDEX network_segments_ended_name ON farrier.network_segments (name, id) WHERE ended_at IS NOT NULL;

-- What is given out, and to how many. The row is the lock under which a segment's addresses change: an allocation or a
-- release holds it to the end of its transaction, and the loop never waits for it: the only commit that changes the row is
-- the one that closes a segment, and that takes it with SKIP LOCKED. Nobody who holds it wants another row that the loop has.
CREATE TABLE farrier.segment_usage (
    segment          bigint      PRIMARY KEY REFERENCES farrier.network_segments,
    open             boolean     NOT NULL DEFAULT true,  -- until its deletion begins; nothing is given out before it is ready, either
    allocated        bigint      NOT NULL DEFAULT 0 CHECK (allocated >= 0),
    last_released_at timestamptz                         -- when that was committed
) WITH (fillfactor = 50);

-- Prefixes of segments that have not ended. No two of a site overlap, proven by the constraint: it sees what others have
-- not committed yet and waits for it, whatever the isolation level. A site becomes a range of texts, one name long,
-- because core PostgreSQL has GiST for ranges and networks, but for the equality of texts only by an extension.
CREATE TYPE farrier.site_span AS RANGE (subtype = text, collation = "C");
CREATE TABLE farrier.segment_prefixes (
    segment        bigint  NOT NULL REFERENCES farrier.segment_usage,
    prefix         cidr    NOT NULL,
    site           text    NOT NULL,
    gateway        inet    CHECK (gateway << prefix OR gateway = prefix),
    reserved_first integer NOT NULL,
    reserved_last  integer NOT NULL,
    first          inet    NOT NULL,  -- of what is given out, gateway aside
    last           inet    NOT NULL,
    usable         numeric NOT NULL CHECK (usable > 0),
    PRIMARY KEY (segment, prefix),
    CONSTRAINT segment_prefixes_apart EXCLUDE USING gist (farrier.site_span(site, site, '[]') WITH &&, prefix inet_ops WITH &&)
);

-- Free addresses, as ranges: a /64 is one row. Kept by their ends, because the lowest free address is taken from the front
-- of the first, which leaves its key as it is.
CREATE TABLE farrier.segment_free (
    segment bigint NOT NULL,
    prefix  cidr   NOT NULL,
    first   inet   NOT NULL,
    last    inet   NOT NULL,
    PRIMARY KEY (segment, last),
    CHECK (first <= last),
    FOREIGN KEY (segment, prefix) REFERENCES farrier.segment_prefixes ON DELETE CASCADE
) WITH (fillfactor = 50);

CREATE TABLE farrier.segment_addresses (
    segment      bigint      NOT NULL,
    address      inet        NOT NULL,
    prefix       cidr        NOT NULL,
    owner        text        NOT NULL CHECK (owner ~ '\S' AND char_length(owner) <= 253),
    node         bigint      REFERENCES farrier.nodes,
    allocated_at timestamptz NOT NULL DEFAULT farrier.now(),
    PRIMARY KEY (segment, address),
    FOREIGN KEY (segment, prefix) REFERENCES farrier.segment_prefixes
);
-- Whoever asks again gets the address that it has: one of each family.
CREATE UNIQUE INDEX segment_addresses_owner ON farrier.segment_addresses (segment, owner, family(address));
CREATE INDEX segment_addresses_node ON farrier.segment_addresses (node) WHERE node IS NOT NULL;

-- What is wrong with the text of a prefix, or null. Host bits are a slip that nobody should have to find later.
CREATE FUNCTION farrier.prefix_fault(given text) RETURNS text
    LANGUAGE plpgsql IMMUTABLE SET search_path = farrier, pg_temp AS $$
DECLARE
    fault text := format('prefix %s is no network address, such as 10.0.0.0/24 or 2001:db8::/64', coalesce(given, 'null'));
BEGIN
    -- PostgreSQL would take 10/8, and an address alone, which are more often slips than wishes.
    IF given IS NULL OR given !~ '\A([0-9]{1,3}(\.[0-9]{1,3}){3}|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*)/[0-9]{1,3}\Z' THEN RETURN fault; END IF;
    IF given::inet <> network(given::inet)::inet THEN
        RETURN format('prefix %s has host bits; the network is %s', given, network(given::inet));
    END IF;
    RETURN NULL;
EXCEPTION WHEN invalid_text_representation OR invalid_binary_representation THEN
    RETURN fault;
END $$;

-- The first and last address that a host may have, and how many there are. Of two or one, all are; IPv6 has no broadcast.
CREATE FUNCTION farrier.hosts_of(prefix cidr, OUT first inet, OUT last inet, OUT many numeric)
    LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    first := host(network(prefix))::inet;
    last := host(broadcast(prefix))::inet;
    many := trunc(2::numeric ^ (CASE family(prefix) WHEN 4 THEN 32 ELSE 128 END - masklen(prefix)));
    IF many <= 2 THEN RETURN; END IF;
    first := first + 1;
    many := many - 1;
    IF family(prefix) = 4 THEN
        last := last - 1;
        many := many - 1;
    END IF;
END $$;

-- Which live segment has this VLAN at the site, or this VNI; null: none.
CREATE FUNCTION farrier.who_has_number(of_column text, for_site text, wanted integer) RETURNS text
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
BEGIN
    IF of_column = 'vlan' THEN
        RETURN (SELECT s.name FROM network_segments s WHERE s.site = for_site AND s.vlan = wanted AND s.ended_at IS NULL);
    END IF;
    RETURN (SELECT s.name FROM network_segments s WHERE s.vni = wanted AND s.ended_at IS NULL);
END $$;

-- VLAN and VNI: the one that was given, or the pool's next. A segment may have one from before there was a pool: then this
-- one keeps it from others in the pool, until either of them ends, and goes on to the next. No segment is locked for that:
-- the loop would wait for whoever creates. Whoever else is about to make a segment with the number is waited for.
CREATE FUNCTION farrier.take_segment_number(of_pool text, of_column text, for_site text, for_id bigint, wanted integer) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    pooled boolean := EXISTS (SELECT FROM number_pools p WHERE p.pool = of_pool);
    taken integer := wanted;
    holder text;
BEGIN
    IF wanted IS NULL AND NOT pooled THEN RETURN NULL; END IF;
    LOOP
        IF pooled THEN taken := take_number(of_pool, 'network_segment', for_id, wanted); END IF;
        holder := who_has_number(of_column, for_site, taken);
        IF holder IS NULL THEN
            PERFORM pg_advisory_xact_lock(hashtextextended(format('farrier.%s:%s', of_pool, taken), 0));
            holder := who_has_number(of_column, for_site, taken);
            IF holder IS NULL THEN RETURN taken; END IF;
        END IF;
        IF wanted IS NOT NULL THEN
            RAISE EXCEPTION '% % is taken by segment %', upper(of_column), wanted, holder
                USING ERRCODE = 'FR409', HINT = 'Leave it out to get one of the pool, if there is one.';
        END IF;
    END LOOP;
END $$;

-- Numbers that another segment keeps in a pool for this one, which ends, are given back with its own.
CREATE FUNCTION farrier.free_segment_numbers(ended farrier.network_segments) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    UPDATE pool_numbers n SET id = ended.id
     WHERE n.pool = 'vlan:' || ended.site AND n.number = ended.vlan AND n.kind = 'network_segment' AND n.id <> ended.id;
    UPDATE pool_numbers n SET id = ended.id
     WHERE n.pool = 'vni' AND n.number = ended.vni AND n.kind = 'network_segment' AND n.id <> ended.id;
    PERFORM free_numbers('network_segment', ended.id);
END $$;

CREATE FUNCTION farrier.prepare_segment() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    given text;
    fault text;
BEGIN
    IF NEW.site IS NULL OR NEW.site !~ '\S' THEN
        RAISE EXCEPTION 'segment %: `site` is missing', NEW.name USING ERRCODE = 'FR400';
    END IF;
    IF coalesce(cardinality(NEW.prefixes), 0) NOT BETWEEN 1 AND 16 THEN
        RAISE EXCEPTION 'segment %: needs 1 to 16 prefixes', NEW.name USING ERRCODE = 'FR400';
    END IF;
    FOREACH given IN ARRAY NEW.prefixes LOOP
        fault := prefix_fault(given);
        IF fault IS NOT NULL THEN RAISE EXCEPTION 'segment %: %', NEW.name, fault USING ERRCODE = 'FR400'; END IF;
    END LOOP;
    FOREACH given IN ARRAY NEW.gateways LOOP
        IF prefix_fault(given || CASE WHEN given LIKE '%:%' THEN '/128' ELSE '/32' END) IS NOT NULL THEN
            RAISE EXCEPTION 'segment %: gateway % is no address', NEW.name, given USING ERRCODE = 'FR400';
        END IF;
    END LOOP;
    NEW.gateways := ARRAY(SELECT host(g::inet) FROM unnest(NEW.gateways) WITH ORDINALITY u (g, n) ORDER BY n);
    NEW.prefixes := ARRAY(SELECT p::cidr::text FROM unnest(NEW.prefixes) WITH ORDINALITY u (p, n) ORDER BY n);
    IF NEW.mtu < 1280 AND EXISTS (SELECT FROM unnest(NEW.prefixes) p WHERE family(p::cidr) = 6) THEN
        RAISE EXCEPTION 'segment %: an MTU of % is too small for IPv6, which needs 1280', NEW.name, NEW.mtu USING ERRCODE = 'FR400';
    END IF;
    IF TG_OP = 'INSERT' THEN
        -- The pool of all sites first: creations at two sites cannot wait for each other in a circle.
        NEW.vni := take_segment_number('vni', 'vni', NEW.site, NEW.id, NEW.vni);
        NEW.vlan := take_segment_number('vlan:' || NEW.site, 'vlan', NEW.site, NEW.id, NEW.vlan);
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER prepare_segment BEFORE INSERT ON farrier.network_segments
    FOR EACH ROW EXECUTE FUNCTION farrier.prepare_segment();
CREATE TRIGGER prepare_change BEFORE UPDATE ON farrier.network_segments
    FOR EACH ROW WHEN (OLD.prefixes <> NEW.prefixes OR OLD.gateways <> NEW.gateways OR OLD.mtu <> NEW.mtu) EXECUTE FUNCTION farrier.prepare_segment();

-- One prefix of a segment, with its gateway, and all of it that is given out as free.
CREATE FUNCTION farrier.open_prefix(of_segment farrier.network_segments, opened cidr) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    hosts record;
    low inet;
    high inet;
    way inet;
    usable numeric;
    other record;
BEGIN
    SELECT p.prefix, s.name INTO other FROM segment_prefixes p JOIN network_segments s ON s.id = p.segment
     WHERE p.site = of_segment.site AND p.prefix && opened LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'segment %: prefix % overlaps % of segment %', of_segment.name, opened, other.prefix, other.name
            USING ERRCODE = 'FR409', HINT = 'Prefixes of a site are apart. A segment that is deleted gives its prefixes back when it is gone.';
    END IF;
    SELECT * INTO hosts FROM hosts_of(opened);
    usable := hosts.many - of_segment.reserved_first - of_segment.reserved_last;
    IF usable > 0 THEN
        low := hosts.first + of_segment.reserved_first;
        high := hosts.last - of_segment.reserved_last;
        way := (SELECT g::inet FROM unnest(of_segment.gateways) g WHERE g::inet <<= opened);
        IF way BETWEEN low AND high THEN usable := usable - 1; END IF;
    END IF;
    IF usable <= 0 THEN
        RAISE EXCEPTION 'segment %: prefix % has no address left to give out; % can be hosts, and % of them are reserved or the gateway',
            of_segment.name, opened, hosts.many, hosts.many - usable USING ERRCODE = 'FR400';
    END IF;
    BEGIN
        INSERT INTO segment_prefixes (segment, prefix, site, gateway, reserved_first, reserved_last, first, last, usable)
        VALUES (of_segment.id, opened, of_segment.site, way, of_segment.reserved_first, of_segment.reserved_last, low, high, usable);
    EXCEPTION WHEN exclusion_violation THEN
        -- Only where the transaction cannot see what others have committed since it began; a new one can.
        RAISE EXCEPTION 'segment %: prefix % overlaps one that was added meanwhile', of_segment.name, opened
            USING ERRCODE = 'serialization_failure', CONSTRAINT = 'segment_prefixes_apart', HINT = 'Ask again in a new transaction.';
    END;
    IF way BETWEEN low AND high THEN
        IF way > low THEN INSERT INTO segment_free VALUES (of_segment.id, opened, low, way - 1); END IF;
        IF way < high THEN INSERT INTO segment_free VALUES (of_segment.id, opened, way + 1, high); END IF;
    ELSE
        INSERT INTO segment_free VALUES (of_segment.id, opened, low, high);
    END IF;
END $$;

-- A gateway lies in one prefix, is no network or broadcast address, and no prefix has two.
CREATE FUNCTION farrier.check_gateways(of_segment farrier.network_segments) RETURNS void
    LANGUAGE plpgsql STABLE SET search_path = farrier, pg_temp AS $$
DECLARE
    fault text;
BEGIN
    fault := (SELECT format('gateway %s lies in none of its prefixes', g) FROM unnest(of_segment.gateways) g
               WHERE NOT EXISTS (SELECT FROM unnest(of_segment.prefixes) p WHERE g::inet <<= p::inet)
              UNION ALL
              SELECT format('gateway %s is the network or broadcast address of %s', g, p)
                FROM unnest(of_segment.gateways) g JOIN unnest(of_segment.prefixes) p ON g::inet <<= p::inet
               CROSS JOIN LATERAL farrier.hosts_of(p::cidr) h WHERE g::inet NOT BETWEEN h.first AND h.last
              UNION ALL
              SELECT format('prefix %s has more than one gateway: %s', p, string_agg(g, ', ' ORDER BY g))
                FROM unnest(of_segment.gateways) g JOIN unnest(of_segment.prefixes) p ON g::inet <<= p::inet
               GROUP BY p HAVING count(*) > 1
               LIMIT 1);
    IF fault IS NOT NULL THEN RAISE EXCEPTION 'segment %: %', of_segment.name, fault USING ERRCODE = 'FR400'; END IF;
END $$;

-- Whoever adds prefixes at a site holds this until the transaction ends.
CREATE FUNCTION farrier.segment_site_lock(site text) RETURNS bigint
    LANGUAGE sql IMMUTABLE
    RETURN hashtextextended('farrier.segment_prefixes:' || site, 0);

-- Prefixes that a segment begins with, and those that come later; one that is there stays until the segment ends. Sites
-- take turns, so that whoever comes second is told by whom the prefix is held, and does not deadlock with the first.
CREATE FUNCTION farrier.open_prefixes() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    opened cidr;
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO segment_usage (segment) VALUES (NEW.id);
    ELSIF NOT NEW.prefixes @> OLD.prefixes OR NOT NEW.gateways @> OLD.gateways THEN
        RAISE EXCEPTION 'segment %: prefixes and gateways stay until it ends', NEW.name USING ERRCODE = 'FR409';
    END IF;
    PERFORM check_gateways(NEW);
    PERFORM pg_advisory_xact_lock(segment_site_lock(NEW.site));
    FOR opened IN SELECT p::cidr FROM unnest(NEW.prefixes) WITH ORDINALITY u (p, n)
                   WHERE NOT EXISTS (SELECT FROM segment_prefixes x WHERE x.segment = NEW.id AND x.prefix = p::cidr) ORDER BY n LOOP
        PERFORM open_prefix(NEW, opened);
    END LOOP;
    RETURN NULL;
END $$;
CREATE TRIGGER open_prefixes AFTER INSERT ON farrier.network_segments
    FOR EACH ROW EXECUTE FUNCTION farrier.open_prefixes();
CREATE TRIGGER open_more_prefixes AFTER UPDATE ON farrier.network_segments
    FOR EACH ROW WHEN (OLD.prefixes <> NEW.prefixes OR OLD.gateways <> NEW.gateways) EXECUTE FUNCTION farrier.open_prefixes();

-- No more addresses are given out when a deletion begins; what ends gives back its prefixes and numbers, and no address may
-- be left then.
CREATE FUNCTION farrier.follow_segment() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    UPDATE segment_usage u SET open = NOT u.open WHERE u.segment = NEW.id AND u.open <> (NEW.state IN ('provisioning', 'ready'));
    IF NEW.ended_at IS NOT NULL THEN
        IF EXISTS (SELECT FROM segment_usage u WHERE u.segment = NEW.id AND u.allocated > 0) THEN
            RAISE EXCEPTION 'segment %: addresses of it are allocated', NEW.name USING ERRCODE = 'FR409';
        END IF;
        DELETE FROM segment_prefixes p WHERE p.segment = NEW.id;
        PERFORM free_segment_numbers(NEW);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER follow_segment AFTER UPDATE ON farrier.network_segments
    FOR EACH ROW WHEN (OLD.state <> NEW.state) EXECUTE FUNCTION farrier.follow_segment();

SELECT farrier.make_kind('network_segment', 'farrier.network_segments');

-- The segments of a commit, which waits for no client. `closes` [{run, unused}] are those that begin to drain: one of which
-- an allocation is under way is decided anew in a second, one that has addresses where it had none, or the reverse, at
-- once. `grows` [{run, site}] get more prefixes: in a second, while somebody else adds some at the site.
CREATE FUNCTION farrier.write_network_segments(changes jsonb) RETURNS TABLE (run bigint, due_in interval)
    LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    held bigint[] := '{}';
    other bigint[] := '{}';
    mine bigint[];
BEGIN
    IF changes ? 'closes' THEN
        WITH asked AS (
            SELECT c.run, c.unused FROM jsonb_to_recordset(changes -> 'closes') c (run bigint, unused boolean)
        ), free AS MATERIALIZED (
            SELECT u.segment, u.allocated FROM farrier.segment_usage u WHERE u.segment IN (SELECT a.run FROM asked a)
             ORDER BY u.segment FOR NO KEY UPDATE SKIP LOCKED
        )
        SELECT coalesce(array_agg(a.run) FILTER (WHERE f.segment IS NULL), '{}'),
               coalesce(array_agg(a.run) FILTER (WHERE (f.allocated = 0) <> a.unused), '{}')
          INTO held, other FROM asked a LEFT JOIN free f ON f.segment = a.run;
    END IF;
    IF changes ? 'grows' THEN
        held := held || ARRAY(SELECT c.run FROM jsonb_to_recordset(changes -> 'grows') c (run bigint, site text)
                               WHERE NOT pg_try_advisory_xact_lock(farrier.segment_site_lock(c.site)));
    END IF;
    IF held <> '{}' OR other <> '{}' THEN
        RETURN QUERY SELECT h, interval '1 second' FROM unnest(held) h;
        RETURN QUERY SELECT o, interval '0' FROM unnest(other) o;
        mine := ARRAY(SELECT c.run FROM jsonb_to_recordset(changes -> 'runs') c (run bigint) WHERE c.run <> ALL (held || other));
        IF mine = '{}' THEN RETURN; END IF;
        changes := farrier.of_runs(changes, mine);
    END IF;
    RETURN QUERY SELECT w.run, w.due_in FROM farrier.write_resources(changes) w;
END $$;

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
