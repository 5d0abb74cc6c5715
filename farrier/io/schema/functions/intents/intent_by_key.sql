-- Returns the id of the intent with this idempotency key: any intent of the node or resource that now has this name or id; else the
-- newest intent with the same action and the same name or id, so that a call may be repeated after its node or resource has ended.
-- Null if there is none.
CREATE OR REPLACE FUNCTION farrier.intent_by_key(of_kind text, called text, of_action text, key text) RETURNS bigint
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    meant bigint := any_resource(of_kind, called);
    found_id bigint;
BEGIN
    SELECT i.id INTO found_id FROM all_intents i WHERE i.kind = of_kind AND i.resource_id = meant AND i.idempotency_key = key;
    IF found_id IS NULL THEN
        SELECT i.id INTO found_id FROM all_intents i
         WHERE i.kind = of_kind AND i.resource = called AND i.idempotency_key = key AND i.action = of_action
         ORDER BY i.id DESC LIMIT 1;
    END IF;
    RETURN found_id;
END $$;
