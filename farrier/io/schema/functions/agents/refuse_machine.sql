-- Returns why these identities of an agent are of another machine than the node's, or null. In that case the node gets the note
-- identity/enrolment, so this is no error: an error would also undo the note. Called by enroll_agent and put_facts.
CREATE OR REPLACE FUNCTION farrier.refuse_machine(of_node bigint, identities jsonb) RETURNS text
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
DECLARE
    refused text := other_machine(of_node, identities);
BEGIN
    IF refused IS NOT NULL THEN
        INSERT INTO node_conditions AS c (node, source, id, message, requested) VALUES (of_node, 'identity', 'enrolment', refused, 'note')
            ON CONFLICT (node, source, id, target) DO UPDATE SET message = excluded.message, seen_at = farrier.now();
        PERFORM enqueue('node', of_node);
    END IF;
    RETURN refused;
END $$;
