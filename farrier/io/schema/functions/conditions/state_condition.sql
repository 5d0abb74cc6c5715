-- States a condition of a node for a source outside farrier, or states it again. The node's next run decides its effect. Returns
-- `changed` if the caller has to wake the node: the condition is new or was unknown, or another effect is requested; `kept` if not;
-- and `full` if the source has too many conditions of the node, so that nothing is stored; and how many notes ended (make_room). Another
-- message is written at most once a minute, and another expiry only if it differs by a minute or more, or half of the remaining time
-- has passed. Called by record_reports, which checks texts and rights.
CREATE OR REPLACE FUNCTION farrier.state_condition(of_node bigint, by_source text, of_id text, of_target text, saying text, wish text,
    until timestamptz, OUT outcome text, OUT dropped integer)
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
DECLARE
    was    node_conditions;
    is_new boolean;
    turns  boolean;
    says   boolean;
BEGIN
    SELECT * INTO was FROM node_conditions c WHERE (c.node, c.source, c.id, c.target) = (of_node, by_source, of_id, of_target) FOR UPDATE;
    is_new := NOT FOUND;
    dropped := CASE WHEN is_new THEN make_room(of_node, by_source) ELSE 0 END;
    IF dropped IS NULL THEN
        outcome := 'full';
        RETURN;
    END IF;
    turns := is_new OR was.requested <> wish OR was.expires_at <= farrier.now();
    says := turns OR was.message <> saying AND was.seen_at <= farrier.now() - interval '1 minute';
    IF says OR abs(extract(epoch FROM until - was.expires_at)) >= 60 OR was.expires_at - farrier.now() < (until - farrier.now()) / 2 THEN
        INSERT INTO node_conditions AS c (node, source, id, target, message, requested, expires_at)
        VALUES (of_node, by_source, of_id, of_target, saying, wish, until)
            ON CONFLICT (node, source, id, target) DO UPDATE
           SET message = CASE WHEN says THEN excluded.message ELSE c.message END,
               seen_at = CASE WHEN says THEN farrier.now() ELSE c.seen_at END,
               requested = excluded.requested, expires_at = excluded.expires_at,
               released = c.released AND c.requested = excluded.requested;
    END IF;
    outcome := CASE WHEN turns THEN 'changed' ELSE 'kept' END;
END $$;
