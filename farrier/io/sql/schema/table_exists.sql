-- Whether a table is there.
SELECT to_regclass($1) IS NOT NULL
