-- Returns the identities of the machine that an agent reports, {serial, uuid}, in the canonical form of identity_keys, without those that
-- prove nothing. Called by enroll_agent, put_facts and
-- derive_identities. In PL/pgSQL for the reason given at is_restored.
CREATE OR REPLACE FUNCTION farrier.identities_of_agent(facts jsonb) RETURNS jsonb
    LANGUAGE plpgsql STABLE SET search_path = farrier, pg_temp AS $$
BEGIN
    RETURN (SELECT coalesce(jsonb_object_agg(k.kind, CASE k.kind WHEN 'serial' THEN substr(k.value, 2) ELSE k.value END), '{}')
      FROM identity_keys(left(facts ->> 'serial', 200), left(facts ->> 'uuid', 200), NULL, '[]') k);
END $$;
