-- The states that a layer of the resources of a kind is in, ended ones left out; whoever changes one waits until this transaction ends.
SELECT state FROM farrier.inhabited_states($1, $2) AS s (state)
