-- Refuses an intent that is invalid in every state, and sets the columns that clients do not set. FR400 for an unknown action or
-- malformed parameters, FR404 for an unknown node, FR406 for a version of the API that this database does not support or in which the
-- action does not exist, FR409 for a decommission that cannot clean the node as its site requires (refuse_mode), unique_violation for
-- an idempotency key that is in use. BEFORE INSERT trigger on intents.
CREATE OR REPLACE FUNCTION farrier.validate_intent() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    spec record;
    fault text;
    asked integer := coalesce(NEW.api_version, (read_constants()).api_min);
BEGIN
    IF NEW.api_version IS NOT NULL THEN PERFORM refuse_version(NEW.api_version); END IF;
    SELECT a.since, k.params INTO spec FROM actions a JOIN kind_actions k USING (action) WHERE k.kind = 'node' AND a.action = NEW.action;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'unknown action %', coalesce(quote_literal(NEW.action), 'null')
            USING ERRCODE = 'FR400', HINT = (SELECT 'Known: ' || string_agg(a.action, ', ' ORDER BY a.action) FROM actions a);
    END IF;
    -- This check comes before FR406, whose hint repeats params.
    IF octet_length(NEW.params::text) > 16384 THEN
        RAISE EXCEPTION 'params have % bytes; at most 16384 are allowed', octet_length(NEW.params::text) USING ERRCODE = 'FR400';
    END IF;
    IF char_length(NEW.idempotency_key) NOT BETWEEN 1 AND 255 OR char_length(NEW.requested_by) NOT BETWEEN 1 AND 255 THEN
        RAISE EXCEPTION '% must have 1 to 255 characters, or be null',
            CASE WHEN char_length(NEW.idempotency_key) NOT BETWEEN 1 AND 255 THEN 'idempotency_key' ELSE 'requested_by' END
            USING ERRCODE = 'FR400';
    END IF;
    IF spec.since > asked THEN
        RAISE EXCEPTION 'action % requires api_version % or later; this intent has %', NEW.action, spec.since,
            coalesce(NEW.api_version::text, format('none, which means %s', asked))
            USING ERRCODE = 'FR406', HINT = insert_with_version(NEW, spec.since);
    END IF;
    fault := CASE WHEN NEW.params IS NULL THEN 'params must be a JSON object' ELSE params_fault(spec.params, NEW.params) END;
    IF fault IS NOT NULL THEN
        RAISE EXCEPTION '%: %', NEW.action, fault USING ERRCODE = 'FR400';
    END IF;
    IF NEW.idempotency_key IS NOT NULL THEN
        PERFORM refuse_repeated('node', NEW.node, NEW.action, NEW.idempotency_key);
    END IF;
    NEW.node_id := find_node(NEW.node);
    IF NEW.action = 'decommission' THEN PERFORM refuse_mode(NEW.node_id, NEW.params ->> 'mode'); END IF;
    IF NEW.action = 'set' THEN PERFORM refuse_details(NEW.params - '{unset, if_version}'::text[]); END IF;
    NEW.status := 'pending';
    NEW.reason := NULL;
    NEW.answered_at := NULL;
    NEW.created_at := farrier.now();
    RETURN NEW;
END $$;
