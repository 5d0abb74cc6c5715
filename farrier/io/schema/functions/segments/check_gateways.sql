-- Refuses a gateway of a segment (FR400) that is in none of its prefixes, that is a network or broadcast address, or
-- that is the second gateway of a prefix.
CREATE OR REPLACE FUNCTION farrier.check_gateways(of_segment farrier.network_segments) RETURNS void
    LANGUAGE plpgsql STABLE SET search_path = farrier, pg_temp AS $$
DECLARE
    fault text;
BEGIN
    fault := (SELECT format('gateway %s is not in a prefix of the segment', g) FROM unnest(of_segment.gateways) g
               WHERE NOT EXISTS (SELECT FROM unnest(of_segment.prefixes) p WHERE g::inet <<= p::inet)
              UNION ALL
              SELECT format('gateway %s is the network or broadcast address of %s', g, p)
                FROM unnest(of_segment.gateways) g JOIN unnest(of_segment.prefixes) p ON g::inet <<= p::inet
               CROSS JOIN LATERAL farrier.hosts_of(p::cidr) h WHERE g::inet NOT BETWEEN h.first AND h.last
              UNION ALL
              SELECT format('prefix %s has more than one gateway: %s', p, string_agg(g, ', ' ORDER BY g))
                FROM unnest(of_segment.gateways) g JOIN unnest(of_segment.prefixes) p ON g::inet <<= p::inet
               GROUP BY p HAVING count(*) > 1
               LIMIT 1);
    IF fault IS NOT NULL THEN RAISE EXCEPTION 'segment %: %', of_segment.name, fault USING ERRCODE = 'FR400'; END IF;
END $$;
