-- Returns the states of a layer in which the kind has resources that have not ended, and null if a resource lacks the state or its
-- time. Changes of the table wait until this transaction ends.
SELECT state FROM farrier.inhabited_states($1, $2) AS s (state)
