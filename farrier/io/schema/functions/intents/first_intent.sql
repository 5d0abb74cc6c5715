-- Returns the id of the first intent of a repeated call whose INSERT failed: a concurrent call with the same key may have taken the
-- name, number or prefixes, and may have committed while this call waited for them. Null if no intent has the key; the error of the
-- INSERT is then the answer. FR400 for a key that belongs to an intent with another action or other params, 40001 if the constraint
-- `violated` shows that there is a first intent, which this transaction does not see.
CREATE OR REPLACE FUNCTION farrier.first_intent(of_kind text, called text, of_action text, of_params jsonb, key text, violated text)
    RETURNS bigint LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    first record;
BEGIN
    IF key IS NULL THEN RETURN NULL; END IF;
    SELECT i.id, i.action, i.params INTO first FROM all_intents i
     WHERE i.kind = of_kind AND i.id = intent_by_key(of_kind, called, of_action, key);
    IF first.action <> of_action OR first.params <> of_params THEN
        RAISE EXCEPTION 'idempotency key % belongs to intent %, which requests % %', quote_literal(key), first.id, first.action, first.params
            USING ERRCODE = 'FR400', HINT = 'A key identifies one intent; use a new key for another.';
    END IF;
    IF first.id IS NULL AND violated IN ('intents_key', 'resource_intents_key', 'resource_intents_create_key') THEN
        RAISE EXCEPTION 'the intent with idempotency key % was committed after this transaction began', quote_literal(key)
            USING ERRCODE = '40001', HINT = 'Repeat the transaction.';
    END IF;
    RETURN first.id;
END $$;
