-- Asks how the handlers would answer these intents now, without submitting them: [{resource, action, params}], at most 1000. Returns
-- the id of the call, for farrier.foreseen(), or null if no controller runs the kind. The controllers that own the resources answer. FR400 for malformed questions, FR404 for an
-- unknown resource, FR409 while too many questions are open.
CREATE OR REPLACE FUNCTION farrier.foresee(kind text, intents jsonb) RETURNS uuid
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    call uuid := gen_random_uuid();
    from_template boolean := (kind_of(foresee.kind)).from_template;
BEGIN
    IF jsonb_typeof(intents) IS DISTINCT FROM 'array' OR jsonb_array_length(intents) NOT BETWEEN 1 AND 1000 OR octet_length(intents::text) > 1048576
       OR EXISTS (SELECT FROM jsonb_array_elements(intents) i
                   WHERE jsonb_typeof(i) <> 'object' OR jsonb_typeof(i -> 'resource') IS DISTINCT FROM 'string'
                      OR jsonb_typeof(i -> 'action') IS DISTINCT FROM 'string'
                      OR coalesce(jsonb_typeof(i -> 'params'), 'object') <> 'object') THEN
        RAISE EXCEPTION 'intents must be an array of 1 to 1000 objects {resource, action, params} with at most 1 MiB' USING ERRCODE = 'FR400';
    END IF;
    DELETE FROM questions q WHERE q.at < farrier.now() - interval '1 minute' OR q.at > farrier.now() + interval '1 minute';
    IF (SELECT count(*) FROM questions q WHERE q.verdict IS NULL) >= 20000 THEN
        RAISE EXCEPTION 'too many questions are open; ask again in a minute' USING ERRCODE = 'FR409';
    END IF;
    INSERT INTO questions (asked, place, kind, resource_id, action, params)
    SELECT call, i.place, foresee.kind,
           CASE WHEN from_template THEN find_resource(foresee.kind, i.given ->> 'resource') ELSE find_node(i.given ->> 'resource') END,
           i.given ->> 'action', coalesce(i.given -> 'params', '{}')
      FROM jsonb_array_elements(intents) WITH ORDINALITY i (given, place);
    IF NOT EXISTS (SELECT FROM shard_owners o WHERE o.kind = foresee.kind AND o.controller IS NOT NULL) THEN
        DELETE FROM questions q WHERE q.asked = call;
        RETURN NULL;
    END IF;
    PERFORM pg_notify('farrier_wake', 'questions:*');
    RETURN call;
END $$;
