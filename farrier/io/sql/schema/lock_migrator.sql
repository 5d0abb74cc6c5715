-- Held to the end of the transaction, so that two sessions do not both find that no other one migrates.
SELECT FROM farrier.migrator FOR UPDATE
