-- Returns the id of the intent with this idempotency key: any intent of the node or resource that now has this name or id; else the
-- newest intent with the same action and the same name or id, so that a call may be repeated after its node or resource has ended.
-- Null if no intent has this key.
CREATE OR REPLACE FUNCTION farrier.intent_by_key(of_kind text, called text, of_action text, key text) RETURNS bigint
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    wanted kinds := kind_of(of_kind);
    meant bigint := CASE WHEN called ~ '^[0-9]{1,18}$' THEN called::bigint END;
    found_id bigint;
BEGIN
    IF meant IS NULL THEN
        EXECUTE format('SELECT r.id FROM %s r WHERE r.%I = $1 AND %s', wanted.relation, wanted.named, wanted.living) INTO meant USING called;
    END IF;
    SELECT i.id INTO found_id FROM all_intents i WHERE i.kind = of_kind AND i.resource_id = meant AND i.idempotency_key = key;
    IF found_id IS NULL THEN
        SELECT i.id INTO found_id FROM all_intents i
         WHERE i.kind = of_kind AND i.resource = called AND i.idempotency_key = key AND i.action = of_action
         ORDER BY i.id DESC LIMIT 1;
    END IF;
    RETURN found_id;
END $$;
