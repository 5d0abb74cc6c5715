-- Releases the numbers of a segment that ends, including those that take_segment_number recorded in a pool under
-- another segment.
CREATE OR REPLACE FUNCTION farrier.free_segment_numbers(ended farrier.network_segments) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    UPDATE pool_numbers n SET id = ended.id
     WHERE n.pool = 'vlan:' || ended.site AND n.number = ended.vlan AND n.kind = 'network_segment' AND n.id <> ended.id;
    UPDATE pool_numbers n SET id = ended.id
     WHERE n.pool = 'vni' AND n.number = ended.vni AND n.kind = 'network_segment' AND n.id <> ended.id;
    PERFORM free_numbers('network_segment', ended.id);
END $$;
