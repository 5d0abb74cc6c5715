-- Refuses the idempotency key of an earlier intent (unique_violation). Called by the triggers that validate intents with a key.
CREATE OR REPLACE FUNCTION farrier.refuse_repeated(of_kind text, called text, of_action text, key text) RETURNS void
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    first_id bigint := intent_by_key(of_kind, called, of_action, key);
BEGIN
    IF first_id IS NOT NULL THEN
        RAISE EXCEPTION '% % already has an intent with idempotency key %: intent %', replace(of_kind, '_', ' '), called,
            quote_literal(key), first_id
            USING ERRCODE = 'unique_violation', CONSTRAINT = 'intents_key',
                  HINT = 'farrier.intent() and farrier.resource_intent() return the first intent instead of failing.';
    END IF;
END $$;
