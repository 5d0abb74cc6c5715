-- One change of the schema at a time: a session that migrates, or installs or removes a kind, holds this row to the end of the
-- transaction. Makes the row where there is none: a dump without data has none, and the migrators after it must exclude each other,
-- too. Comes before a migrator is sought, so that two sessions do not both find none.
INSERT INTO farrier.migrator DEFAULT VALUES ON CONFLICT (only_one) DO UPDATE SET only_one = excluded.only_one
