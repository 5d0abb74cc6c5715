-- Applies a change of a segment's state: from the beginning of its deletion the segment allocates no addresses, and when it ends it
-- releases its prefixes and numbers. FR409 if it ends while addresses are allocated. AFTER UPDATE trigger on network_segments.
CREATE OR REPLACE FUNCTION farrier.follow_segment() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    UPDATE segment_usage u SET open = NOT u.open WHERE u.segment = NEW.id AND u.open <> (NEW.state IN ('provisioning', 'ready'));
    IF NEW.ended_at IS NOT NULL THEN
        IF EXISTS (SELECT FROM segment_usage u WHERE u.segment = NEW.id AND u.allocated > 0) THEN
            RAISE EXCEPTION 'segment % still has allocated addresses', NEW.name USING ERRCODE = 'FR409';
        END IF;
        DELETE FROM segment_prefixes p WHERE p.segment = NEW.id;
        PERFORM free_segment_numbers(NEW);
    END IF;
    RETURN NULL;
END $$;
