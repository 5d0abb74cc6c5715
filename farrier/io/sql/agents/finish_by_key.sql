-- Ends a claimed task.
SELECT farrier.finish_by_key($1, $2, $3, $4, $5::jsonb, $6::jsonb)
