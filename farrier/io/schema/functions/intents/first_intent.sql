-- Returns the id of the first intent of a repeated call whose INSERT failed with the SQLSTATE `failed`: a concurrent call with the
-- same key may have taken the name, number or prefixes, and may have committed while this call waited for them. Null if no intent has
-- the key; the error of the INSERT is then the answer. FR400 for a key that belongs to an intent with another action or other params.
CREATE OR REPLACE FUNCTION farrier.first_intent(of_kind text, called text, of_action text, of_params jsonb, key text, failed text)
    RETURNS bigint LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    first record;
BEGIN
    SELECT i.id, i.action, i.params INTO first FROM all_intents i
     WHERE i.kind = of_kind AND i.id = intent_by_key(of_kind, called, of_action, key);
    IF first.action <> of_action OR first.params <> of_params THEN
        RAISE EXCEPTION 'idempotency key % belongs to intent %, which requests % %', quote_literal(key), first.id, first.action, first.params
            USING ERRCODE = 'FR400', HINT = 'A key identifies one intent; use a new key for another.';
    END IF;
    -- With a fixed snapshot, the transaction cannot see an intent that was committed after its first statement.
    IF first.id IS NULL AND key IS NOT NULL AND failed = '23505'
       AND current_setting('transaction_isolation') IN ('repeatable read', 'serializable') THEN
        RAISE EXCEPTION 'an intent with idempotency key % may have been committed after this transaction began', quote_literal(key)
            USING ERRCODE = '40001', HINT = 'Repeat the transaction.';
    END IF;
    RETURN first.id;
END $$;
