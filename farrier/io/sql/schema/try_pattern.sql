-- Fails for a regular expression that PostgreSQL cannot read.
SELECT '' ~ $1::text
