-- Records one heartbeat of an agent whose row the caller has locked. Returns its verdict, as take_beats does, and whether its wake is
-- quiet, as record_beat does. Waits for no other transaction: a commit that changes the node's conditions at this moment makes the
-- verdict locked. Called by take_beats.
CREATE OR REPLACE FUNCTION farrier.take_beat(of_node bigint, health jsonb, boot uuid, version text, among_many boolean,
    OUT verdict text, OUT reason text, OUT quiet boolean)
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
DECLARE
    was node_agents := (SELECT a FROM node_agents a WHERE a.node_id = of_node);
    changed boolean := was.health IS DISTINCT FROM health;
BEGIN
    IF changed THEN
        reason := coalesce(health_fault(health), 'health ' || json_fault(health, 65536));
        IF reason IS NOT NULL THEN
            verdict := 'refused';
            RETURN;
        END IF;
        IF (SELECT count(*) FROM node_conditions c WHERE c.node = of_node AND c.source = 'agent') <> (
            SELECT count(*) FROM (SELECT FROM node_conditions c WHERE c.node = of_node AND c.source = 'agent' FOR UPDATE SKIP LOCKED) l) THEN
            verdict := 'locked';
            RETURN;
        END IF;
    END IF;
    quiet := record_beat(was, health, boot, version, among_many);
    verdict := 'taken';
END $$;
