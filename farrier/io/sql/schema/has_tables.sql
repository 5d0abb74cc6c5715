-- Returns whether the schema has tables besides those that record its migrations.
SELECT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                WHERE n.nspname = 'farrier' AND c.relkind = 'r'
                  AND c.relname NOT IN ('migrator', 'schema_steps', 'schema_set', 'schema_objects'))
