-- Stores the facts of an agent.
SELECT farrier.put_facts($1, $2, $3::jsonb)
