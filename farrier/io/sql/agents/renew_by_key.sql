-- Extends the lease of a claimed task.
SELECT farrier.renew_by_key($1, $2, $3, $4)
