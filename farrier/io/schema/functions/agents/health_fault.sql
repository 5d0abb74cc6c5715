-- Returns what is wrong with a health report, as a text for the agent that sent it, or null.
CREATE OR REPLACE FUNCTION farrier.health_fault(health jsonb) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    alert jsonb;
BEGIN
    IF health IS NULL OR jsonb_typeof(health) <> 'object' THEN RETURN 'health must be a JSON object'; END IF;
    IF octet_length(health::text) > 65536 THEN RETURN 'health must be at most 64 KiB'; END IF;
    IF jsonb_typeof(coalesce(health -> 'ok', 'true')) <> 'boolean' THEN RETURN 'health.ok must be true or false'; END IF;
    IF coalesce(health -> 'ssh_seed', '"unknown"') NOT IN ('"ok"', '"failed"', '"unknown"') THEN RETURN 'health.ssh_seed must be ok, failed or unknown'; END IF;
    IF jsonb_typeof(coalesce(health -> 'alerts', '[]')) <> 'array' THEN RETURN 'health.alerts must be an array'; END IF;
    FOR alert IN SELECT jsonb_array_elements(coalesce(health -> 'alerts', '[]')) LOOP
        IF jsonb_typeof(alert) <> 'object' OR jsonb_typeof(alert -> 'id') IS DISTINCT FROM 'string'
           OR jsonb_typeof(coalesce(alert -> 'target', '""')) <> 'string'
           OR jsonb_typeof(coalesce(alert -> 'message', '""')) <> 'string'
           OR jsonb_typeof(coalesce(alert -> 'blocks_scheduling', 'false')) <> 'boolean' THEN
            RETURN 'each alert must be {"id": text, "target": text, "message": text, "blocks_scheduling": true or false}';
        END IF;
    END LOOP;
    RETURN NULL;
END $$;
