-- Ends a claimed task.
SELECT farrier.finish_task($1, $2, $3, $4::jsonb)
