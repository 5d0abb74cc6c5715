-- Forgets which objects the set had, before they are recorded anew.
DELETE FROM farrier.schema_objects
