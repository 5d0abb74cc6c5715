-- Returns the host and port of a BMC's address, in the form of bmc_span_of; null for null.
CREATE OR REPLACE FUNCTION farrier.bmc_endpoint_of(address text) RETURNS text
    LANGUAGE sql IMMUTABLE STRICT RETURN split_part(lower(farrier.bmc_span_of(address)), '/', 1);
