-- Records the objects of the set.
INSERT INTO farrier.schema_objects (kind, name, source, definition)
SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[])
