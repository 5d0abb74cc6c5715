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
            PERFORM lock_keys('segment_number', ARRAY[format('%s:%s', of_pool, taken)]);
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
    PERFORM lock_keys('segment_prefixes', ARRAY[NEW.site]);
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
                               WHERE NOT farrier.try_lock_key('segment_prefixes', c.site));
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
