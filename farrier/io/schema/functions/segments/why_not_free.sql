-- Returns why a wanted address cannot be allocated. The address is in the prefix and in no free range.
CREATE OR REPLACE FUNCTION farrier.why_not_free(of_segment bigint, of_prefix cidr, wanted inet) RETURNS text
    LANGUAGE sql STABLE
    RETURN coalesce(
        (SELECT format('is taken by %s', a.owner) FROM farrier.segment_addresses a WHERE a.segment = of_segment AND a.address = wanted),
        (SELECT CASE WHEN p.gateway = wanted THEN format('is the gateway of %s', p.prefix)
                     WHEN wanted NOT BETWEEN h.first AND h.last THEN format('is the network or broadcast address of %s', p.prefix)
                     ELSE format('is reserved; %s allocates %s to %s', p.prefix, host(p.first), host(p.last)) END
           FROM farrier.segment_prefixes p CROSS JOIN LATERAL farrier.hosts_of(p.prefix) h
          WHERE p.segment = of_segment AND p.prefix = of_prefix));
