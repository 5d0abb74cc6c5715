-- Returns the identities of the machine that nodes.bmc describes; see identity_keys.
CREATE OR REPLACE FUNCTION farrier.identity_keys_of_bmc(bmc jsonb) RETURNS TABLE (kind text, value text)
    LANGUAGE sql STABLE SET search_path = farrier, pg_temp AS $$
    SELECT k.kind, k.value FROM identity_keys(bmc ->> 'serial', bmc ->> 'uuid', bmc ->> 'manufacturer', bmc -> 'macs') k;
$$;
