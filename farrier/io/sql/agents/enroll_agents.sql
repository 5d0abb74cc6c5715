-- Enrolls agents with their bootstrap tokens and the digests of the keys that they made, and returns the answer to each.
SELECT place, node_name, refused, fault, reason, hint FROM farrier.enroll_agents($1::jsonb, $2)
