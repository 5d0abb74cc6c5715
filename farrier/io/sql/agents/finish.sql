-- Ends a claimed task.
SELECT farrier.finish_task($1::bigint::text, $2, $3, $4, $5, $6::jsonb)
