-- Why nothing that a site's region says or is told now can be trusted to be about our machines; null for no reason.
CREATE OR REPLACE FUNCTION farrier.region_doubt(site text) RETURNS text
    LANGUAGE sql STABLE
    RETURN (SELECT CASE WHEN r.failure IN ('absent', 'auth') OR r.username IS NULL THEN coalesce(r.last_error, 'nobody has read it yet') END
              FROM farrier.maas_regions r WHERE r.site = $1);
