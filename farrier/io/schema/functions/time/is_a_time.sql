-- Returns whether a JSON field of this name holds a time of the database's clock. synced_at holds a time of the MAAS
-- region's clock.
CREATE OR REPLACE FUNCTION farrier.is_a_time(name text) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    RETURN name <> 'synced_at' AND (name LIKE E'%\\_at' OR name LIKE E'%\\_until' OR name LIKE E'%\\_since'
                                    OR name IN ('at', 'since', 'until', 'tries', 'trying'));
