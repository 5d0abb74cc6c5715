-- Extends the lease of a claimed task.
SELECT farrier.renew_task($1, $2, $3)
