-- Returns the identities of a machine that reports these values, each in a canonical form: a serial number in lower case and without
-- blanks at its ends, after the letters and digits of the manufacturer; a UUID in the smaller of the two byte orders of its first
-- three fields, which firmware updates swap. A placeholder (one of identity_placeholders, or one repeated character) is no identity.
-- MAC addresses count only if a BMC reports neither a serial number nor a UUID, because network cards are replaced.
-- farrier.model.identity compares by the same rules.
CREATE OR REPLACE FUNCTION farrier.identity_keys(serial text, uuid text, manufacturer text, macs jsonb) RETURNS TABLE (kind text, value text)
    LANGUAGE plpgsql STABLE SET search_path = farrier, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    fillers text[] := (read_constants()).identity_placeholders;
    number text := lower(btrim(serial, E' \t\r\n'));
    hex text := translate(regexp_replace(lower(btrim(uuid, E' \t\r\n')), '^urn:uuid:', ''), '-{}', '');
    swapped text;
    known boolean := false;
BEGIN
    IF hex ~ '^[0-9a-f]{32}$' THEN
        swapped := substr(hex, 7, 2) || substr(hex, 5, 2) || substr(hex, 3, 2) || substr(hex, 1, 2)
                || substr(hex, 11, 2) || substr(hex, 9, 2) || substr(hex, 15, 2) || substr(hex, 13, 2) || substr(hex, 17);
        IF hex <> repeat(left(hex, 2), 16) AND NOT fillers && ARRAY[hex::uuid::text, swapped::uuid::text] THEN
            known := true;
            RETURN QUERY SELECT 'uuid', least(hex COLLATE "C", swapped COLLATE "C");
        END IF;
    END IF;
    IF number <> repeat(left(number, 1), length(number)) AND number <> ALL (fillers) THEN
        known := true;
        RETURN QUERY SELECT 'serial', regexp_replace(lower(coalesce(manufacturer, '')), '[^[:alnum:]]', '', 'g') || '/' || number;
    END IF;
    IF NOT known THEN
        RETURN QUERY SELECT DISTINCT 'mac', m.mac
                       FROM (SELECT translate(lower(t), ':-. ', '') AS mac FROM jsonb_array_elements_text(macs) t) m
                      WHERE m.mac ~ '^[0-9a-f]{12}$' AND m.mac <> repeat(left(m.mac, 1), 12);
    END IF;
END $$;
