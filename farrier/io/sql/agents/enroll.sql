-- Enrolls an agent with its bootstrap token, and returns its node and the agent's key.
SELECT node, agent_key, refused FROM farrier.enroll_agent($1, $2::jsonb)
