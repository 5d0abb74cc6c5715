-- The statement that takes a right from a role; $1 is the right and what it is on.
SELECT format('REVOKE %s FROM %s', $1::text, $2::text)
