-- Returns the statements that set the comments of objects. The arrays have the kinds, identities and comments of the
-- objects; '' removes a comment.
SELECT string_agg(format('COMMENT ON %s %s IS %L', c.kind, c.identity, nullif(c.comment, '')), ';')
  FROM unnest($1::text[], $2::text[], $3::text[]) AS c (kind, identity, comment)
