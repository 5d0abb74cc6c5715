-- Enrolls an agent with its bootstrap token and the digest of the key that it made, and returns the name of its node.
SELECT node_name, refused FROM farrier.enroll_agent($1, $2::jsonb, $3, version => $4, boot_id => $5)
