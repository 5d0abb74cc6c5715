-- After a change of what identifies no machine, what nodes have recorded is looked at anew.
SELECT farrier.derive_identities()
