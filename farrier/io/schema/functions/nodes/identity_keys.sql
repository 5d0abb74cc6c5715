-- Returns the identities of a machine that reports these values, each in a canonical form: a serial number in lower case and without
-- blanks at its ends, after the letters and digits of the manufacturer; a UUID in the smaller of the two byte orders of its first
-- three fields, which firmware updates swap. A value is an identity only if it can be unique: neither one of identity_placeholders nor
-- a pattern of digits (is_pattern, is_unique_uuid, is_unique_mac). MAC addresses count only if a BMC reports no serial number, because
-- network cards are replaced. farrier.model.machine.identity compares by the same rules.
CREATE OR REPLACE FUNCTION farrier.identity_keys(serial text, uuid text, manufacturer text, macs jsonb) RETURNS TABLE (kind text, value text)
    LANGUAGE plpgsql STABLE SET search_path = farrier, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    fillers text[] := (read_constants()).identity_placeholders;
    number text := lower(btrim(serial, E' \t\r\n'));
    plain text := regexp_replace(number, '[^a-z0-9]', '', 'g');
    hex text := translate(regexp_replace(lower(btrim(uuid, E' \t\r\n')), '^urn:uuid:', ''), '-{}', '');
    swapped text;
BEGIN
    IF hex ~ '^[0-9a-f]{32}$' THEN
        swapped := substr(hex, 7, 2) || substr(hex, 5, 2) || substr(hex, 3, 2) || substr(hex, 1, 2)
                || substr(hex, 11, 2) || substr(hex, 9, 2) || substr(hex, 15, 2) || substr(hex, 13, 2) || substr(hex, 17);
        IF is_unique_uuid(hex) AND is_unique_uuid(swapped) AND NOT fillers && ARRAY[hex, swapped] THEN
            RETURN QUERY SELECT 'uuid', least(hex COLLATE "C", swapped COLLATE "C");
        END IF;
    END IF;
    IF NOT is_pattern(plain) AND NOT plain LIKE ANY (fillers) THEN
        RETURN QUERY SELECT 'serial', regexp_replace(lower(coalesce(manufacturer, '')), '[^[:alnum:]]', '', 'g') || '/' || number;
    ELSE
        RETURN QUERY SELECT DISTINCT 'mac', m.mac
                       FROM (SELECT translate(lower(t), ':-. ', '') AS mac FROM jsonb_array_elements_text(macs) t) m
                      WHERE is_unique_mac(m.mac);
    END IF;
END $$;
