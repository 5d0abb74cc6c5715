-- Extends the lease of a claimed task.
SELECT farrier.renew_task($1::bigint::text, $2, $3, $4, $5)
