-- Deletes the row of a door that stops. If the door goes on, its next pulse lists it again.
CREATE OR REPLACE FUNCTION farrier.leave_door(door uuid) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
    DELETE FROM doors d WHERE d.id = door
$$;
