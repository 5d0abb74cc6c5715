-- Answers pending intents, and tells whoever listens once per commit.
WITH answered AS (
    UPDATE farrier.intents i
       SET status = r.status, reason = nullif(r.reason, ''), answered_at = farrier.now()
      FROM unnest($1::bigint[], $2::text[], $3::text[]) AS r (id, status, reason)
     WHERE i.id = r.id AND i.status = 'pending'
    RETURNING i.id
)
SELECT pg_notify('farrier_intent_answered', '') FROM (SELECT FROM answered LIMIT 1) once
