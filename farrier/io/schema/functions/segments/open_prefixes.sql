-- Adds the prefixes of a new segment, and the prefixes that an UPDATE adds. FR409 for an UPDATE that removes or changes
-- a prefix or a gateway. Locks the site (lock_keys, purpose segment_prefixes), so transactions that add prefixes at a
-- site take turns: they cannot deadlock, and an overlap is reported with the other segment's name. AFTER INSERT or
-- UPDATE trigger on network_segments.
CREATE OR REPLACE FUNCTION farrier.open_prefixes() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    opened cidr;
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO segment_usage (segment) VALUES (NEW.id);
    ELSIF NOT NEW.prefixes @> OLD.prefixes OR NOT NEW.gateways @> OLD.gateways THEN
        RAISE EXCEPTION 'segment %: existing prefixes and gateways cannot be removed or changed', NEW.name USING ERRCODE = 'FR409';
    END IF;
    PERFORM check_gateways(NEW);
    PERFORM lock_keys('segment_prefixes', ARRAY[NEW.site]);
    FOR opened IN SELECT p::cidr FROM unnest(NEW.prefixes) WITH ORDINALITY u (p, n)
                   WHERE NOT EXISTS (SELECT FROM segment_prefixes x WHERE x.segment = NEW.id AND x.prefix = p::cidr) ORDER BY n LOOP
        PERFORM open_prefix(NEW, opened);
    END LOOP;
    RETURN NULL;
END $$;
