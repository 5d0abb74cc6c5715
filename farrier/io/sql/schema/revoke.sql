-- The statement that takes a right from a role, and from those to whom the role passed it on; $1 is the right and what it is on.
SELECT format('REVOKE %s FROM %s CASCADE', $1::text, $2::text)
