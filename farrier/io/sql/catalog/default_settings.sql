-- Sets those of these numbers that no controller has written yet.
INSERT INTO farrier.settings (name, value) SELECT s.name, to_jsonb(s.value) FROM unnest($1::text[], $2::double precision[]) AS s (name, value)
    ON CONFLICT (name) DO NOTHING
