-- Sets numbers that functions in the database need to know.
INSERT INTO farrier.settings (name, value) SELECT s.name, to_jsonb(s.value) FROM unnest($1::text[], $2::double precision[]) AS s (name, value) ORDER BY s.name
    ON CONFLICT (name) DO UPDATE SET value = excluded.value WHERE farrier.settings.value <> excluded.value
