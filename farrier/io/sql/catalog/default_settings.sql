-- Adds the settings if no controller has written them yet; columns as in settings.sql.
INSERT INTO farrier.settings (offline_after, brake_share, brake_at_least, brake_window) VALUES ($1, $2::double precision, $3, $4)
    ON CONFLICT (only_one) DO NOTHING
