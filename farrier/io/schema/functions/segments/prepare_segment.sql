-- Checks the prefixes, gateways and MTU of a segment (FR400), stores them in PostgreSQL's spelling, and takes the VLAN and VNI of
-- a new segment. BEFORE INSERT or UPDATE trigger on network_segments.
CREATE OR REPLACE FUNCTION farrier.prepare_segment() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    given text;
    fault text;
BEGIN
    IF coalesce(cardinality(NEW.prefixes), 0) NOT BETWEEN 1 AND 16 THEN
        RAISE EXCEPTION 'segment %: needs 1 to 16 prefixes', NEW.name USING ERRCODE = 'FR400';
    END IF;
    FOREACH given IN ARRAY NEW.prefixes LOOP
        fault := prefix_fault(given);
        IF fault IS NOT NULL THEN RAISE EXCEPTION 'segment %: %', NEW.name, fault USING ERRCODE = 'FR400'; END IF;
    END LOOP;
    FOREACH given IN ARRAY NEW.gateways LOOP
        IF prefix_fault(given || CASE WHEN given LIKE '%:%' THEN '/128' ELSE '/32' END) IS NOT NULL THEN
            RAISE EXCEPTION 'segment %: gateway % is not an IP address', NEW.name, given USING ERRCODE = 'FR400';
        END IF;
    END LOOP;
    NEW.gateways := ARRAY(SELECT host(g::inet) FROM unnest(NEW.gateways) WITH ORDINALITY u (g, n) ORDER BY n);
    NEW.prefixes := ARRAY(SELECT p::cidr::text FROM unnest(NEW.prefixes) WITH ORDINALITY u (p, n) ORDER BY n);
    IF NEW.mtu < 1280 AND EXISTS (SELECT FROM unnest(NEW.prefixes) p WHERE family(p::cidr) = 6) THEN
        RAISE EXCEPTION 'segment %: an MTU of % is too small for IPv6, which requires 1280', NEW.name, NEW.mtu USING ERRCODE = 'FR400';
    END IF;
    IF TG_OP = 'INSERT' THEN
        -- The pool of all sites comes first, so that creations at two sites cannot deadlock.
        NEW.vni := take_segment_number('vni', 'vni', NEW.site, NEW.id, NEW.vni);
        NEW.vlan := take_segment_number('vlan:' || NEW.site, 'vlan', NEW.site, NEW.id, NEW.vlan);
    END IF;
    RETURN NEW;
END $$;
