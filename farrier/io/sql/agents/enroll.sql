-- Spends a bootstrap token: the node it is for, and the agent's key.
SELECT node, agent_key FROM farrier.enroll_agent($1, $2::jsonb)
