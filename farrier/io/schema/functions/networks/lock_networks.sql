-- Takes all locks that use_networks needs, and waits for none: raises lock_not_available (55P03) if another transaction
-- has one. The calling commit has locked rows of nodes, and clients lock these rows in any order, so waiting could
-- deadlock. Called by write_nodes_and_networks.
CREATE OR REPLACE FUNCTION farrier.lock_networks(of_node bigint, segments text[], partitions text[]) RETURNS void
    LANGUAGE plpgsql AS $$
DECLARE
    lans bigint[] := ARRAY(
        SELECT s.id FROM farrier.network_segments s WHERE s.name = ANY (segments) AND s.ended_at IS NULL
        UNION SELECT a.segment FROM farrier.segment_addresses a WHERE a.node = of_node);
    fabrics bigint[] := ARRAY(
        SELECT p.id FROM farrier.ib_partitions p WHERE p.name = ANY (partitions) AND p.ended_at IS NULL
        UNION SELECT m.partition FROM farrier.ib_members m WHERE m.node = of_node);
    ports text[] := (SELECT i.guids FROM farrier.node_ib_ports i WHERE i.node = of_node);
    got bigint;
BEGIN
    WITH used AS MATERIALIZED (
        SELECT FROM farrier.segment_usage u WHERE u.segment = ANY (lans) ORDER BY u.segment FOR NO KEY UPDATE SKIP LOCKED
    )
    SELECT count(*) FROM used INTO got;
    IF got < cardinality(lans) THEN
        RAISE EXCEPTION 'other transactions are changing segments or partitions that node % uses', of_node USING ERRCODE = 'lock_not_available';
    END IF;
    WITH held AS MATERIALIZED (
        SELECT FROM farrier.ib_members m WHERE m.partition = ANY (fabrics) AND (m.node = of_node OR m.guid = ANY (ports))
         ORDER BY m.partition, m.guid FOR NO KEY UPDATE SKIP LOCKED
    )
    SELECT count(*) INTO got FROM held;
    IF got < (SELECT count(*) FROM farrier.ib_members m
               WHERE m.partition = ANY (fabrics) AND (m.node = of_node OR m.guid = ANY (ports))) THEN
        RAISE EXCEPTION 'other transactions are changing ports of node %', of_node USING ERRCODE = 'lock_not_available';
    END IF;
END $$;
