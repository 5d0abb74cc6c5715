-- Returns the sessions that have locked rows of these resources, as one text for each resource.
SELECT id, string_agg(DISTINCT holder, '; ' ORDER BY holder) AS holders FROM farrier.lock_holders($1, $2::bigint[]) GROUP BY id
