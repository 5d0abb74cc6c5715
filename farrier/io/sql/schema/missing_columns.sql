-- Returns which of these columns a table lacks.
SELECT c.name FROM unnest($2::text[]) AS c (name)
 WHERE NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = $1::text::regclass AND a.attname = c.name AND a.attnum > 0 AND NOT a.attisdropped)
 ORDER BY c.name
