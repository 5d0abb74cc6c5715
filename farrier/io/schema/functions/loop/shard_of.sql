-- Returns the shard of a resource.
CREATE OR REPLACE FUNCTION farrier.shard_of(id bigint) RETURNS smallint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (id % 64)::smallint;
