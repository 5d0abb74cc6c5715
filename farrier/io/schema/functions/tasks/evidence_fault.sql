-- Returns what is wrong with the evidence that a claimant ('agent of NODE' or 'worker LOGIN') reports with the result of a task, as
-- the end of a sentence, or null. The rules are those of farrier.model.node.evidence.Reported. Nobody may report evidence in the name of
-- another.
CREATE OR REPLACE FUNCTION farrier.evidence_fault(evidence jsonb, claimant text) RETURNS text
    LANGUAGE plpgsql STABLE SET search_path = farrier, pg_temp AS $$
DECLARE
    reporter text := split_part(claimant, ' ', 1);
    fault text;
BEGIN
    IF evidence IS NULL THEN RETURN NULL; END IF;
    fault := json_fault(evidence, 65536);
    IF fault IS NOT NULL THEN RETURN fault; END IF;
    IF jsonb_typeof(evidence) <> 'object' THEN RETURN 'must be a JSON object, got ' || left(evidence::text, 80); END IF;
    fault := params_fault((read_constants()).evidence, evidence, 'has a field %s that %s');
    IF fault IS NOT NULL THEN RETURN fault; END IF;
    IF evidence ->> 'by' <> reporter THEN RETURN format('is reported by the %s, but has by = %L', reporter, evidence ->> 'by'); END IF;
    RETURN (SELECT format('has two devices of the same kind and serial number: %s %s', d ->> 'kind', d ->> 'serial')
              FROM jsonb_array_elements(evidence -> 'devices') d
             GROUP BY d ->> 'kind', d ->> 'serial' HAVING count(*) > 1 ORDER BY 1 LIMIT 1);
END $$;
