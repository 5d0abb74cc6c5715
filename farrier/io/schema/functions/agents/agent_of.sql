-- How an agent is named in its tasks and in history.
CREATE OR REPLACE FUNCTION farrier.agent_of(node_id bigint) RETURNS text
    LANGUAGE sql STABLE SET search_path = farrier, pg_temp
    RETURN (SELECT 'agent of ' || n.name FROM farrier.nodes n WHERE n.id = node_id);
