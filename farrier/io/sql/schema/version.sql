-- Returns the version of the tables, also to a login that may not read the records of the schema.
SELECT farrier.schema_version()
