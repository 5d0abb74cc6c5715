-- One setting that functions in the database need to know.
INSERT INTO farrier.settings (name, value) VALUES ($1, to_jsonb($2::double precision))
    ON CONFLICT (name) DO UPDATE SET value = excluded.value WHERE farrier.settings.value <> excluded.value
