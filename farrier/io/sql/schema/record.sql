-- Records a migration, in the transaction that applies it.
INSERT INTO farrier.schema_migrations (version, name, checksum) VALUES ($1, $2, $3)
