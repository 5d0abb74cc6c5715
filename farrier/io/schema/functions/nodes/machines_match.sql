-- Returns whether two machines with at least one identity in common are the same machine. Each array has the identities of one machine
-- as texts `KIND VALUE`, in order. If serial numbers or UUIDs differ, other common values are not unique, and prove nothing; the same
-- holds for a common UUID if all MAC addresses differ. One common MAC address among others is weak evidence, because network cards
-- are moved.
CREATE OR REPLACE FUNCTION farrier.machines_match(ours text[], theirs text[]) RETURNS boolean
    LANGUAGE sql IMMUTABLE SET search_path = farrier, pg_temp AS $$
    WITH kinds AS (
        SELECT k.kind, array(SELECT v FROM unnest(ours) v WHERE v LIKE k.kind || ' %') AS ours,
               array(SELECT v FROM unnest(theirs) v WHERE v LIKE k.kind || ' %') AS theirs
          FROM (VALUES ('serial'), ('uuid'), ('mac')) k (kind)
    ), seen AS (
        SELECT k.kind, k.ours = k.theirs AS equal, k.ours && k.theirs AS common
          FROM kinds k WHERE k.ours <> '{}' AND k.theirs <> '{}'
    )
    SELECT NOT EXISTS (SELECT FROM seen s WHERE s.kind <> 'mac' AND NOT s.equal)
       AND (EXISTS (SELECT FROM seen s WHERE s.kind = 'serial')
            OR EXISTS (SELECT FROM seen s WHERE s.kind = 'uuid') AND NOT EXISTS (SELECT FROM seen s WHERE s.kind = 'mac' AND NOT s.common)
            OR EXISTS (SELECT FROM seen s WHERE s.kind = 'mac' AND s.equal));
$$;
