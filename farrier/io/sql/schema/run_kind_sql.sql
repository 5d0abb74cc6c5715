-- Runs the SQL of a kind as a part of the transaction: PL/pgSQL refuses COMMIT, ROLLBACK and other commands that control transactions.
DO $$ BEGIN EXECUTE current_setting('farrier.kind_sql'); END $$
