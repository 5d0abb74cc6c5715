-- Refuses facts of an agent that are not a JSON object, are too large, or are nested too deeply (FR400).
CREATE OR REPLACE FUNCTION farrier.check_facts(facts jsonb) RETURNS void
    LANGUAGE plpgsql IMMUTABLE SET search_path = farrier, pg_temp AS $$
DECLARE
    fault text := json_fault(facts, 65536);
BEGIN
    IF facts IS NULL OR jsonb_typeof(facts) <> 'object' THEN
        RAISE EXCEPTION 'facts must be a JSON object of at most 64 KiB'
            USING ERRCODE = 'FR400', HINT = 'Omit facts, or send an object such as {"kernel": "6.8"}.';
    ELSIF fault IS NOT NULL THEN
        RAISE EXCEPTION 'facts must be a JSON object of at most 64 KiB; this one %', fault
            USING ERRCODE = 'FR400', HINT = 'Send only facts that identify the system, not logs.';
    END IF;
END $$;
