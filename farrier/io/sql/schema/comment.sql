-- The statement that makes a text the comment of an object; $1 is its kind, $2 its identity.
SELECT format('COMMENT ON %s %s IS %L', $1::text, $2::text, nullif($3::text, ''))
