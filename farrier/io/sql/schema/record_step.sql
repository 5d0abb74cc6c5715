-- Records a version of the tables.
INSERT INTO farrier.schema_steps (version, name, checksum) VALUES ($1, $2, $3)
