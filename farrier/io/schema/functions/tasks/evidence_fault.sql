-- Returns what is wrong with the evidence of a task's result, as the end of a sentence, or null. Evidence is {by, devices}: who
-- reports it, and for each device what was done and seen.
CREATE OR REPLACE FUNCTION farrier.evidence_fault(evidence jsonb) RETURNS text
    LANGUAGE plpgsql IMMUTABLE SET search_path = farrier, pg_temp AS $$
DECLARE
    device jsonb;
BEGIN
    IF evidence IS NULL THEN RETURN NULL; END IF;
    IF jsonb_typeof(evidence) <> 'object' OR jsonb_typeof(evidence -> 'by') IS DISTINCT FROM 'string'
       OR jsonb_typeof(evidence -> 'devices') IS DISTINCT FROM 'array' OR jsonb_array_length(evidence -> 'devices') > 1000 THEN
        RETURN 'must be {"by": text, "devices": [at most 1000]}';
    END IF;
    FOR device IN SELECT jsonb_array_elements(evidence -> 'devices') LOOP
        IF jsonb_typeof(device) <> 'object' OR jsonb_typeof(device -> 'serial') IS DISTINCT FROM 'string'
           OR coalesce(device ->> 'result', '') NOT IN ('erased', 'failed', 'unproven') THEN
            RETURN 'must name for each device its serial, and its result: erased, failed or unproven';
        END IF;
    END LOOP;
    RETURN json_fault(evidence, 65536);
END $$;
