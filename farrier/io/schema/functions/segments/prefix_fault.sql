-- Returns what is wrong with the text of a prefix, or null. Refuses host bits, which are more often a mistake than intended.
CREATE OR REPLACE FUNCTION farrier.prefix_fault(given text) RETURNS text
    LANGUAGE plpgsql IMMUTABLE SET search_path = farrier, pg_temp AS $$
DECLARE
    fault text := format('prefix %s is not a network address such as 10.0.0.0/24 or 2001:db8::/64', coalesce(given, 'null'));
BEGIN
    -- PostgreSQL would accept 10/8, and an address alone; both are more often mistakes than intended.
    IF given IS NULL OR given !~ E'\\A([0-9]{1,3}(\\.[0-9]{1,3}){3}|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*)/[0-9]{1,3}\\Z' THEN RETURN fault; END IF;
    IF given::inet <> network(given::inet)::inet THEN
        RETURN format('prefix %s has host bits; the network is %s', given, network(given::inet));
    END IF;
    RETURN NULL;
EXCEPTION WHEN invalid_text_representation OR invalid_binary_representation THEN
    RETURN fault;
END $$;
