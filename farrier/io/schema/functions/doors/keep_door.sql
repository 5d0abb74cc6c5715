-- Renews the row of a door, or lists the door. Returns false if 100 doors of this kind are listed: a login of doors cannot fill the
-- table. FR400 for a malformed name or release. Called by pulse_agents_door and pulse_pages_door, which choose the kind, so that the
-- login of one kind cannot renew doors of the other.
CREATE OR REPLACE FUNCTION farrier.keep_door(kind text, door uuid, name text, release text, reached boolean) RETURNS boolean
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
DECLARE
    now timestamptz := farrier.now();
BEGIN
    IF door IS NULL OR name IS NULL OR name !~ '^[[:graph:]]{1,253}$' OR release IS NULL OR release !~ '^[[:graph:]]{1,64}$' THEN
        RAISE EXCEPTION 'a door needs an id, the name of its host (1 to 253 visible characters) and a release (1 to 64 visible characters)'
            USING ERRCODE = 'FR400', HINT = 'Send the host name and the version of the process, without spaces.';
    END IF;
    UPDATE doors d SET name = keep_door.name, release = keep_door.release, renewed_at = now,
                       reached_at = CASE WHEN reached THEN now ELSE d.reached_at END
     WHERE d.id = door AND d.kind = keep_door.kind;
    IF NOT FOUND THEN
        INSERT INTO doors (id, kind, name, release, reached_at)
        SELECT door, keep_door.kind, keep_door.name, keep_door.release, CASE WHEN reached THEN now END
         WHERE (SELECT count(*) FROM doors d WHERE d.kind = keep_door.kind) < 100
            ON CONFLICT DO NOTHING;
    END IF;
    RETURN FOUND;
END $$;
