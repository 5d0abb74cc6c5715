-- Commits finished runs of one kind in one call.
SELECT id, verdict, due_in, farrier.now() AS at FROM farrier.commit_runs($1, $2, $3, $4, $5, $6, $7, $8::jsonb, $9::jsonb)
