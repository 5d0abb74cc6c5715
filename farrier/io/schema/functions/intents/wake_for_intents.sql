-- Enqueues the nodes of new intents. A client that declared no version of the API learns which version its intents have, and which is
-- the newest. AFTER INSERT trigger on intents.
CREATE OR REPLACE FUNCTION farrier.wake_for_intents() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    api constants;
BEGIN
    INSERT INTO wakes (kind, resource) SELECT DISTINCT 'node', node_id FROM new_rows;
    IF EXISTS (SELECT FROM new_rows n WHERE n.api_version IS NULL) THEN
        api := read_constants();
        RAISE NOTICE 'without api_version, an intent has version %; the newest version is %', api.api_min, api.api_max;
    END IF;
    RETURN NULL;
END $$;
