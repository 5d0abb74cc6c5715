-- Returns what a listing shows of a partition besides its columns: its number as UFM, subnet managers and hosts write it. Called
-- through detail_of.
CREATE OR REPLACE FUNCTION farrier.ib_partition_detail(id bigint) RETURNS jsonb
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
    SELECT jsonb_build_object('pkey_hex', '0x' || to_hex(p.pkey)) FROM ib_partitions p WHERE p.id = $1;
$$;
