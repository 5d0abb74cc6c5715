-- Returns the set that was applied last.
SELECT kind, name, source, definition FROM farrier.schema_objects
