-- Returns the name by which tasks and history refer to the agent of a node.
CREATE OR REPLACE FUNCTION farrier.agent_of(node_id bigint) RETURNS text
    LANGUAGE sql STABLE SET search_path = farrier, pg_temp
    RETURN (SELECT 'agent of ' || n.name FROM farrier.nodes n WHERE n.id = node_id);
