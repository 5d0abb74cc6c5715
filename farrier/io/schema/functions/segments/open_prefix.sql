-- Adds one prefix with its gateway to a segment, and adds the addresses of the prefix, except the reserved ones and the
-- gateway, to segment_free. FR400 for a prefix without an allocatable address, FR409 for a prefix that overlaps another
-- prefix of the site, serialization_failure if this transaction cannot see that other prefix.
CREATE OR REPLACE FUNCTION farrier.open_prefix(of_segment farrier.network_segments, opened cidr) RETURNS void
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
            USING ERRCODE = 'FR409', HINT = 'Prefixes of a site must not overlap. A deleted segment releases its prefixes when it ends.';
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
        RAISE EXCEPTION 'segment %: prefix % has no allocatable address; it has % host addresses, of which % are reserved or the gateway',
            of_segment.name, opened, hosts.many, hosts.many - usable USING ERRCODE = 'FR400';
    END IF;
    BEGIN
        INSERT INTO segment_prefixes (segment, prefix, site, gateway, first, last, usable)
        VALUES (of_segment.id, opened, of_segment.site, way, low, high, usable);
    EXCEPTION WHEN exclusion_violation THEN
        -- Occurs only in a transaction whose snapshot is older than the other prefix; a new transaction sees that
        -- prefix.
        RAISE EXCEPTION 'segment %: prefix % overlaps a prefix that was added at the same time', of_segment.name, opened
            USING ERRCODE = 'serialization_failure', CONSTRAINT = 'segment_prefixes_apart', HINT = 'Retry in a new transaction.';
    END;
    IF way BETWEEN low AND high THEN
        IF way > low THEN INSERT INTO segment_free VALUES (of_segment.id, opened, low, way - 1); END IF;
        IF way < high THEN INSERT INTO segment_free VALUES (of_segment.id, opened, way + 1, high); END IF;
    ELSE
        INSERT INTO segment_free VALUES (of_segment.id, opened, low, high);
    END IF;
END $$;
