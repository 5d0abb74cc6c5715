-- States a condition of a node for a source outside farrier, or states it again. The node's next run decides its effect. The
-- node is enqueued only if the condition is new or was unknown, or if another effect is requested. Another message is written at most
-- once a minute, and another expiry only if it differs by a minute or more. FR400 for a malformed text or effect, FR409 if the
-- source has too many conditions of the node (make_room). Called by the functions that outside sources call, which check
-- their rights.
CREATE OR REPLACE FUNCTION farrier.state_condition(of_node bigint, by_source text, of_id text, of_target text, saying text, wish text,
    until timestamptz) RETURNS void
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
DECLARE
    fault  text := coalesce('the id ' || text_fault(of_id, 1, 128), 'the target ' || text_fault(of_target, 0, 128),
                            'the message ' || text_fault(saying, 0, 500));
    was    node_conditions;
    is_new boolean;
    turns  boolean;
    says   boolean;
BEGIN
    IF fault IS NOT NULL THEN
        RAISE EXCEPTION '%', fault USING ERRCODE = 'FR400';
    ELSIF wish IS NULL OR wish NOT IN ('note', 'quarantine') THEN
        RAISE EXCEPTION 'the effect must be note or quarantine, got %', coalesce(quote_literal(wish), 'null') USING ERRCODE = 'FR400';
    END IF;
    SELECT * INTO was FROM node_conditions c WHERE (c.node, c.source, c.id, c.target) = (of_node, by_source, of_id, of_target) FOR UPDATE;
    is_new := NOT FOUND;
    turns := is_new OR was.requested <> wish OR coalesce(was.expires_at <= farrier.now(), false);
    says := turns OR was.message <> saying AND was.seen_at <= farrier.now() - interval '1 minute';
    IF NOT says AND (was.expires_at IS NOT DISTINCT FROM until OR abs(extract(epoch FROM until - was.expires_at)) < 60) THEN
        RETURN;
    END IF;
    IF is_new THEN
        PERFORM make_room(of_node, by_source);
    END IF;
    INSERT INTO node_conditions AS c (node, source, id, target, message, requested, expires_at)
    VALUES (of_node, by_source, of_id, of_target, saying, wish, until)
        ON CONFLICT (node, source, id, target) DO UPDATE
       SET message = CASE WHEN says THEN excluded.message ELSE c.message END,
           seen_at = CASE WHEN says THEN farrier.now() ELSE c.seen_at END,
           requested = excluded.requested, expires_at = excluded.expires_at, released = c.released AND c.requested = excluded.requested;
    IF turns THEN
        PERFORM enqueue('node', of_node);
    END IF;
END $$;
