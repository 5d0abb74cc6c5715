-- Gives a node the note identity/agent: a machine reports with the agent's key after another machine with the same key has
-- replaced it. An enrolment ends the note. Inserts nothing for a note that stands, so that it waits for nobody. Called by
-- take_beats.
CREATE OR REPLACE FUNCTION farrier.note_two_agents(of_node bigint) RETURNS void
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM node_conditions c WHERE (c.node, c.source, c.id, c.target) = (of_node, 'identity', 'agent', '')) THEN
        INSERT INTO node_conditions (node, source, id, message, requested)
        VALUES (of_node, 'identity', 'agent', 'two machines use the key of the agent; the one that booted first is refused', 'note');
        PERFORM enqueue('node', of_node);
    END IF;
END $$;
