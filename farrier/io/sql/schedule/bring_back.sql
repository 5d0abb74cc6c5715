-- Makes rows of one lane due that are due further ahead than any delay reaches: the clock was set back since. One that is
-- claimed stays so for as long as that, in which whoever lives renews it or gives it back. Rows held by others are passed
-- over, and none is there on any other day.
WITH astray AS MATERIALIZED (
    SELECT ctid AS place
      FROM farrier.schedule
     WHERE kind = $1 AND lane = $2 AND due_at > farrier.now() + $3
     ORDER BY due_at
     LIMIT $4
       FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE farrier.schedule s
   SET due_at = CASE WHEN s.claim_token IS NULL THEN farrier.now() ELSE farrier.now() + $3 END
  FROM astray
 WHERE s.ctid = astray.place
RETURNING s.id
