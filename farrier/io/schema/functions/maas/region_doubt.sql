-- Returns why a site's region may not be the one that has our machines, so that no workflow asks anything of it: machines are
-- missing from it, it refuses the key, or it was not read since it got its URL. Null if there is no doubt.
CREATE OR REPLACE FUNCTION farrier.region_doubt(site text) RETURNS text
    LANGUAGE sql STABLE
    RETURN (SELECT CASE WHEN r.failure IN ('absent', 'auth') OR r.username IS NULL THEN coalesce(r.last_error, 'nobody has read it yet') END
              FROM farrier.maas_regions r WHERE r.site = $1);
