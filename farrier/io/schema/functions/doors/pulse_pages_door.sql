-- Records the pulse of a door of pages and the HTTP API. Doors call it every two seconds. Returns false if the door is not listed,
-- because 100 doors of pages are. FR400 for a malformed name or release.
CREATE OR REPLACE FUNCTION farrier.pulse_pages_door(door uuid, name text, release text) RETURNS boolean
    LANGUAGE sql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
    SELECT keep_door('pages', door, name, release, false)
$$;
