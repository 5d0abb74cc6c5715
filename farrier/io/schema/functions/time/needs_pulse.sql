-- Returns whether anything depends on a pulse: that of doors if a node waits for an agent that uses them, that of agents if at least
-- reach_expected agents are expected to report by a door. The agent of an active node is expected to report.
CREATE OR REPLACE FUNCTION farrier.needs_pulse(pulse text) RETURNS boolean
    LANGUAGE sql STABLE SET search_path = farrier, pg_temp AS $$
    SELECT CASE pulse
        WHEN 'controllers' THEN true
        WHEN 'doors' THEN EXISTS (
            SELECT FROM node_agents a JOIN nodes n ON n.id = a.node_id
             WHERE a.by_door AND (n.status = 'active' OR n.live_workflow_id IS NOT NULL))
        WHEN 'agents' THEN (
            SELECT count(*) FROM (
                SELECT FROM node_agents a JOIN nodes n ON n.id = a.node_id
                 WHERE a.by_door AND n.status = 'active' LIMIT (SELECT c.reach_expected FROM constants c)) e)
            >= (SELECT c.reach_expected FROM constants c) END
$$;
