-- Returns the statement that revokes a right from a role, and from roles to which that role granted it; $1 is the right and its
-- object.
SELECT format('REVOKE %s FROM %s CASCADE', $1::text, $2::text)
