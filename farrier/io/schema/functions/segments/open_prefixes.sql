-- Prefixes that a segment begins with, and those that come later; one that is there stays until the segment ends. Sites
-- take turns, so that whoever comes second is told by whom the prefix is held, and does not deadlock with the first.
CREATE OR REPLACE FUNCTION farrier.open_prefixes() RETURNS trigger
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
