-- Refuses details that are invalid for every node (FR400): applies the rules of intent `set`, and json_fault to labels.
-- Called by register_node and validate_intent.
CREATE OR REPLACE FUNCTION farrier.refuse_details(details jsonb) RETURNS void
    LANGUAGE plpgsql STABLE SET search_path = farrier, pg_temp AS $$
DECLARE
    rules jsonb := (SELECT (a.params -> 'fields') - '{unset, if_version}'::text[] FROM kind_actions a WHERE a.kind = 'node' AND a.action = 'set');
    fault text := params_fault(jsonb_build_object('fields', rules), details);
BEGIN
    fault := coalesce(fault, 'labels ' || json_fault(details -> 'labels', 16384));
    IF fault IS NOT NULL THEN RAISE EXCEPTION '%', fault USING ERRCODE = 'FR400'; END IF;
    PERFORM read_macs(details -> 'macs');
END $$;
