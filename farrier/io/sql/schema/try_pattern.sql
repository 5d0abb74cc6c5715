-- Fails for a regular expression that PostgreSQL cannot parse.
SELECT '' ~ $1::text
