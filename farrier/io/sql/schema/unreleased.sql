-- Whether the schema is one of before the first release, which kept these records.
SELECT to_regclass('farrier.schema_migrations') IS NOT NULL
