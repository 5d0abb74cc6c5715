-- After a change of the values that identify no machine, the identities of all nodes are derived again.
SELECT farrier.derive_identities()
