-- After lost replies: from now on a load shows whether these commits happened.
SELECT id, at FROM farrier.settle_runs($1, $2, $3, $4)
