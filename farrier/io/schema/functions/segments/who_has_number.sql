-- Returns the name of the segment that has this VLAN at the site, or this VNI, and has not ended; null if there is none.
CREATE OR REPLACE FUNCTION farrier.who_has_number(of_column text, for_site text, wanted integer) RETURNS text
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
BEGIN
    IF of_column = 'vlan' THEN
        RETURN (SELECT s.name FROM network_segments s WHERE s.site = for_site AND s.vlan = wanted AND s.ended_at IS NULL);
    END IF;
    RETURN (SELECT s.name FROM network_segments s WHERE s.vni = wanted AND s.ended_at IS NULL);
END $$;
