-- One change of the schema at a time: whoever migrates, grants, installs or removes a kind holds it to the end of the transaction.
-- Before a migrator is sought, so that two sessions do not both find none.
SELECT FROM farrier.migrator FOR UPDATE
