-- Returns whether a table exists.
SELECT to_regclass($1) IS NOT NULL
