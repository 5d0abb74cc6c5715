-- Locks the migrator's row, so that the schema has one change at a time: a session that migrates, or installs or removes a kind,
-- holds the row until its transaction ends. Inserts the row if it is missing, as in a dump without data, because later migrators must
-- exclude each other, too. Runs before the check for another migrator, so that two sessions cannot both find no
-- migrator.
INSERT INTO farrier.migrator DEFAULT VALUES ON CONFLICT (only_one) DO UPDATE SET only_one = excluded.only_one
