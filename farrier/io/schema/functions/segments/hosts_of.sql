-- Returns the first and the last address of a prefix that a host may have, and how many there are. In a prefix of one
-- or two addresses, a host may have any address. In an IPv6 prefix, a host may also have the last address, because IPv6
-- has no broadcast address.
CREATE OR REPLACE FUNCTION farrier.hosts_of(prefix cidr, OUT first inet, OUT last inet, OUT many numeric)
    LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    first := host(network(prefix))::inet;
    last := host(broadcast(prefix))::inet;
    many := trunc(2::numeric ^ (CASE family(prefix) WHEN 4 THEN 32 ELSE 128 END - masklen(prefix)));
    IF many <= 2 THEN RETURN; END IF;
    first := first + 1;
    many := many - 1;
    IF family(prefix) = 4 THEN
        last := last - 1;
        many := many - 1;
    END IF;
END $$;
