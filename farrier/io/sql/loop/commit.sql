-- Commits finished runs of one kind in one go.
SELECT id, verdict, due_in, farrier.now() AS at
  FROM farrier.commit_runs($1, $2, $3, $4, $5, $6, $7::jsonb, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22)
