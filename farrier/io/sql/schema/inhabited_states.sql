-- The states that resources of a kind are in, ended ones left out; whoever changes one waits until this transaction ends.
SELECT state FROM farrier.inhabited_states($1) AS s (state)
