-- Deletes the record of the set's objects, before it is written again.
DELETE FROM farrier.schema_objects
