-- Returns the identities of the machine that nodes.bmc describes as texts `KIND VALUE`, in order, with all MAC addresses that can be
-- unique; for machines_match.
CREATE OR REPLACE FUNCTION farrier.identities_of(bmc jsonb) RETURNS text[]
    LANGUAGE sql STABLE SET search_path = farrier, pg_temp AS $$
    SELECT array(SELECT k.kind || ' ' || k.value FROM identity_keys_of_bmc(bmc) k
                 UNION
                 SELECT 'mac ' || k.value FROM identity_keys(NULL, NULL, NULL, bmc -> 'macs') k
                 ORDER BY 1);
$$;
