-- Commits finished runs of one kind in one go; those that are to be made again at once stay claimed if there is a token for it.
SELECT id, verdict, woken, kept, outcome_key, reruns, farrier.now() AS at
  FROM farrier.commit_runs($1, $2, $3, $4, $5::jsonb, $6, $7, $8, $9, $10, $11,
                           $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25)
