-- Nodes use network segments and IB partitions: what a node is to use, the ports that it has, and what it takes and gives
-- back in the commit of its own run. What is taken is told by its owner, the node's name, and its node, the id.

-- What a node is to use, by name: one that does not exist yet may come.
CREATE TABLE farrier.node_uses (
    node bigint NOT NULL REFERENCES farrier.nodes,
    kind text   NOT NULL CHECK (kind IN ('network_segment', 'ib_partition')),
    name text   NOT NULL,
    PRIMARY KEY (node, kind, name)
);
CREATE INDEX node_uses_name ON farrier.node_uses (kind, name);

CREATE FUNCTION farrier.are_guids(given text[]) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    RETURN cardinality(given) <= 64 AND (SELECT coalesce(bool_and(g IS NOT NULL AND g ~ '^[0-9a-f]{16}$'), true) FROM unnest(given) g);

-- InfiniBand ports of nodes; no row: not known; an empty array: it has none. Apart from the nodes' own rows, which only the
-- loop writes: whoever else held one until COMMIT would wait there for a wake that the loop's commit, waiting for it, keeps.
CREATE TABLE farrier.node_ib_ports (
    node  bigint  PRIMARY KEY REFERENCES farrier.nodes,
    guids text[]  NOT NULL CHECK (farrier.are_guids(guids)),
    given boolean NOT NULL   -- by set_ib_ports; else the agent told, as it enrolled
);
CREATE INDEX node_ib_ports_guids ON farrier.node_ib_ports USING gin (guids);

-- The InfiniBand ports of a node, instead of those that were known. An empty array says that it has none. May be called again.
CREATE FUNCTION farrier.set_ib_ports(node text, guids text[]) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
#variable_conflict use_column
DECLARE
    target bigint := find_node(set_ib_ports.node);
    ports text[] := ARRAY(SELECT DISTINCT ib_guid(g) FROM unnest(set_ib_ports.guids) g ORDER BY 1);
    holder text;
BEGIN
    IF set_ib_ports.guids IS NULL OR cardinality(ports) > 64 THEN
        RAISE EXCEPTION 'a node has 0 to 64 IB ports; got %', coalesce(cardinality(ports)::text, 'null')
            USING ERRCODE = 'FR400', HINT = 'An empty array says that it has none.';
    END IF;
    holder := (SELECT n.name FROM node_ib_ports p JOIN nodes n ON n.id = p.node WHERE p.guids && ports AND p.node <> target LIMIT 1);
    IF holder IS NOT NULL THEN
        RAISE EXCEPTION 'a port of these belongs to node %', holder
            USING ERRCODE = 'FR409', HINT = 'Give that node its own ports first: farrier.set_ib_ports() replaces them.';
    END IF;
    INSERT INTO node_ib_ports VALUES (target, ports, true)
        ON CONFLICT (node) DO UPDATE SET guids = excluded.guids, given = true;
    PERFORM enqueue('node', target);
END $$;

-- What an agent tells as it enrols counts where nobody has said otherwise. What makes no sense is passed over: no machine
-- stays out of service for that.
CREATE FUNCTION farrier.learn_ib_ports() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    told text[];
BEGIN
    IF jsonb_typeof(NEW.facts -> 'ib_guids') <> 'array' THEN RETURN NULL; END IF;
    told := ARRAY(SELECT DISTINCT right(lower(g), 16) FROM jsonb_array_elements_text(NEW.facts -> 'ib_guids') g
                   WHERE g ~* '\A(0x)?[0-9a-f]{16}\Z' ORDER BY 1);
    IF cardinality(told) = 0 OR NOT are_guids(told)
       OR EXISTS (SELECT FROM node_ib_ports p WHERE p.guids && told AND p.node <> NEW.node_id) THEN
        RETURN NULL;
    END IF;
    INSERT INTO node_ib_ports AS p VALUES (NEW.node_id, told, false)
        ON CONFLICT (node) DO UPDATE SET guids = excluded.guids WHERE NOT p.given;
    RETURN NULL;
END $$;
CREATE TRIGGER learn_ib_ports AFTER INSERT ON farrier.node_agents
    FOR EACH ROW WHEN (NEW.facts ? 'ib_guids') EXECUTE FUNCTION farrier.learn_ib_ports();
CREATE TRIGGER learn_ib_ports_again AFTER UPDATE OF facts ON farrier.node_agents
    FOR EACH ROW WHEN (NEW.facts ? 'ib_guids') EXECUTE FUNCTION farrier.learn_ib_ports();

-- What a node is to use, and how far it has it: what a run decides on. Null for a node that is to use nothing.
CREATE FUNCTION farrier.networks_of(of_node bigint, called text) RETURNS jsonb
    LANGUAGE plpgsql STABLE AS $$
BEGIN  -- which keeps its plan, unlike SQL
    RETURN (SELECT jsonb_build_object(
        'segments', coalesce(jsonb_agg(jsonb_build_object(
            'name', u.name, 'state', s.state, 'site', s.site, 'mtu', s.mtu, 'vlan', s.vlan,
            'address', host(a.address), 'prefix_length', masklen(a.prefix), 'gateway', host(x.gateway),
            'free', s.id IS NOT NULL AND (
                EXISTS (SELECT FROM farrier.segment_free f WHERE f.segment = s.id)
                OR EXISTS (SELECT FROM farrier.segment_addresses b WHERE b.segment = s.id AND b.owner = called))
            ) ORDER BY u.name) FILTER (WHERE u.kind = 'network_segment'), '[]'),
        'partitions', coalesce(jsonb_agg(jsonb_build_object(
            'name', u.name, 'state', p.state, 'site', p.site, 'last_error', p.last_error, 'pkey', p.pkey,
            'ports', coalesce((SELECT jsonb_agg(jsonb_build_object('guid', m.guid, 'owner', m.owner, 'state', m.state, 'reason', m.reason,
                                                                   'ours', m.owner = called AND m.node IS NOT DISTINCT FROM of_node)
                                                ORDER BY m.guid)
                                 FROM farrier.ib_members m
                                WHERE m.partition = p.id
                                  AND (m.node = of_node OR m.guid = ANY ((SELECT i.guids FROM farrier.node_ib_ports i WHERE i.node = of_node)::text[]))), '[]')
            ) ORDER BY u.name) FILTER (WHERE u.kind = 'ib_partition'), '[]'))
      FROM farrier.node_uses u
      LEFT JOIN farrier.network_segments s ON u.kind = 'network_segment' AND s.name = u.name AND s.ended_at IS NULL
      LEFT JOIN LATERAL (SELECT b.* FROM farrier.segment_addresses b WHERE b.segment = s.id AND b.node = of_node AND b.owner = called
                          ORDER BY b.address LIMIT 1) a ON true
      LEFT JOIN farrier.segment_prefixes x ON x.segment = a.segment AND x.prefix = a.prefix
      LEFT JOIN farrier.ib_partitions p ON u.kind = 'ib_partition' AND p.name = u.name AND p.ended_at IS NULL
     WHERE u.node = of_node
    HAVING count(*) > 0);
END $$;

-- Has a node that is not deployed use these and no others: takes what can be had now, gives back what is not named or is
-- being deleted, and fails for nothing that cannot be had; the node's next run sees what is missing, and why. May be called
-- again: an owner has one address of a segment.
CREATE FUNCTION farrier.use_networks(of_node bigint, segments text[], partitions text[]) RETURNS void
    LANGUAGE plpgsql AS $$
DECLARE
    who text;
    at_site text;
    ports text[];
    one record;
BEGIN
    SELECT n.name, n.site, coalesce(p.guids, '{}') INTO who, at_site, ports
      FROM farrier.nodes n LEFT JOIN farrier.node_ib_ports p ON p.node = n.id WHERE n.id = of_node;
    DELETE FROM farrier.node_uses u
     WHERE u.node = of_node AND u.name <> ALL (CASE u.kind WHEN 'network_segment' THEN segments ELSE partitions END);
    INSERT INTO farrier.node_uses
    SELECT of_node, 'network_segment', w FROM unnest(segments) w UNION SELECT of_node, 'ib_partition', w FROM unnest(partitions) w
        ON CONFLICT DO NOTHING;

    FOR one IN SELECT a.segment, a.address FROM farrier.segment_addresses a JOIN farrier.network_segments s ON s.id = a.segment
                WHERE a.node = of_node AND a.owner = who
                  AND (s.name <> ALL (segments) OR s.state LIKE 'deleting/%')
                ORDER BY a.segment, a.address LOOP
        PERFORM farrier.release_address(one.segment::text, one.address, who);
    END LOOP;
    FOR one IN SELECT m.partition, m.guid FROM farrier.ib_members m JOIN farrier.ib_partitions p ON p.id = m.partition
                WHERE m.node = of_node AND m.owner = who AND m.state <> 'leaving'
                  AND (p.name <> ALL (partitions) OR m.guid <> ALL (ports) OR p.state = 'deleting')
                ORDER BY m.partition, m.guid LOOP
        PERFORM farrier.leave_partition(one.partition::text, one.guid, who);
    END LOOP;

    FOR one IN SELECT s.id FROM farrier.network_segments s JOIN farrier.segment_usage u ON u.segment = s.id AND u.open AND s.state = 'ready'
                WHERE s.name = ANY (segments) AND s.ended_at IS NULL AND s.site = at_site
                  AND NOT EXISTS (SELECT FROM farrier.segment_addresses a WHERE a.segment = s.id AND a.owner = who AND a.node = of_node)
                  AND (EXISTS (SELECT FROM farrier.segment_free f WHERE f.segment = s.id)
                       OR EXISTS (SELECT FROM farrier.segment_addresses a WHERE a.segment = s.id AND a.owner = who))
                ORDER BY s.id LOOP
        PERFORM farrier.allocate_address(one.id::text, who, NULL, of_node);
    END LOOP;
    FOR one IN SELECT p.id, g AS guid, coalesce(m.membership, 'full') AS membership
                 FROM farrier.ib_partitions p CROSS JOIN unnest(ports) g
                 LEFT JOIN farrier.ib_members m ON m.partition = p.id AND m.guid = g AND m.owner = who
                WHERE p.name = ANY (partitions) AND p.ended_at IS NULL AND p.site = at_site AND p.state <> 'deleting'
                  AND NOT EXISTS (SELECT FROM farrier.ib_members o WHERE o.partition = p.id AND o.guid = g AND o.state <> 'leaving'
                                     AND (o.owner <> who OR o.node = of_node))
                ORDER BY p.id, g LOOP
        PERFORM farrier.join_partition(one.id::text, one.guid, who, of_node, one.membership);
    END LOOP;
END $$;

-- Takes every lock that `use_networks` and the wakes at its COMMIT come to want, and waits for none: the loop holds the rows
-- of its nodes meanwhile, which the commits of partitions and segments want, too, to wake them. Fails with 55P03.
CREATE FUNCTION farrier.lock_networks(of_node bigint, segments text[], partitions text[]) RETURNS void
    LANGUAGE plpgsql AS $$
DECLARE
    lans bigint[] := ARRAY(
        SELECT s.id FROM farrier.network_segments s WHERE s.name = ANY (segments) AND s.ended_at IS NULL
        UNION SELECT a.segment FROM farrier.segment_addresses a WHERE a.node = of_node);
    fabrics bigint[] := ARRAY(
        SELECT p.id FROM farrier.ib_partitions p WHERE p.name = ANY (partitions) AND p.ended_at IS NULL
        UNION SELECT m.partition FROM farrier.ib_members m WHERE m.node = of_node);
    members bigint;
    got bigint;
BEGIN
    WITH held AS MATERIALIZED (
        SELECT FROM farrier.schedule s
         WHERE (s.kind = 'network_segment' AND s.id = ANY (lans)) OR (s.kind = 'ib_partition' AND s.id = ANY (fabrics))
         ORDER BY s.kind, s.id FOR NO KEY UPDATE SKIP LOCKED
    ), used AS MATERIALIZED (
        SELECT FROM farrier.segment_usage u WHERE u.segment = ANY (lans) ORDER BY u.segment FOR NO KEY UPDATE SKIP LOCKED
    )
    SELECT (SELECT count(*) FROM held) + (SELECT count(*) FROM used) INTO got;
    IF got < 2 * cardinality(lans) + cardinality(fabrics) THEN
        RAISE EXCEPTION 'what node % uses is being changed by others', of_node USING ERRCODE = 'lock_not_available';
    END IF;
    SELECT count(*) INTO members FROM farrier.ib_members m WHERE m.partition = ANY (fabrics)
       AND (m.node = of_node OR m.guid = ANY ((SELECT i.guids FROM farrier.node_ib_ports i WHERE i.node = of_node)::text[]));
    WITH held AS MATERIALIZED (
        SELECT FROM farrier.ib_members m WHERE m.partition = ANY (fabrics)
           AND (m.node = of_node OR m.guid = ANY ((SELECT i.guids FROM farrier.node_ib_ports i WHERE i.node = of_node)::text[]))
         ORDER BY m.partition, m.guid FOR NO KEY UPDATE SKIP LOCKED
    )
    SELECT count(*) INTO got FROM held;
    IF got < members THEN
        RAISE EXCEPTION 'ports of node % are being changed by others', of_node USING ERRCODE = 'lock_not_available';
    END IF;
END $$;

-- The nodes of a commit, and what they use: `networks` [{run, segments, partitions}]. A run that cannot have
-- its locks at once, or finds something changed as it takes it, is decided anew in a second, by itself: no other run of the
-- commit knows of it. A run is whole or not at all, hence a subtransaction for each of these few.
CREATE FUNCTION farrier.write_nodes_and_networks(changes jsonb) RETURNS TABLE (run bigint, due_in interval)
    LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    users bigint[] := '{}';
    wish record;
    late interval;
    ours boolean;
BEGIN
    IF changes ? 'networks' THEN
        FOR wish IN
            SELECT c.* FROM jsonb_to_recordset(changes -> 'networks') c (run bigint, segments text[], partitions text[])
             WHERE c.segments <> '{}' OR c.partitions <> '{}' OR farrier.has_networks(c.run) ORDER BY c.run LOOP
            users := users || wish.run;
            late := NULL;
            ours := true;
            BEGIN
                PERFORM farrier.lock_networks(wish.run, wish.segments, wish.partitions);
                ours := false;
                SELECT w.due_in INTO late FROM farrier.write_nodes(farrier.of_runs(changes, ARRAY[wish.run])) w;
                ours := true;
                IF late IS NULL THEN
                    PERFORM farrier.use_networks(wish.run, wish.segments, wish.partitions);
                END IF;
            EXCEPTION WHEN lock_not_available OR SQLSTATE 'FR404' OR SQLSTATE 'FR409' THEN
                IF NOT ours THEN RAISE; END IF;
                late := interval '1 second';
            END;
            IF late IS NOT NULL THEN RETURN QUERY SELECT wish.run, late; END IF;
        END LOOP;
    END IF;
    IF users <> '{}' THEN
        changes := farrier.runs_without(changes, users);
        IF jsonb_array_length(changes -> 'runs') = 0 THEN RETURN; END IF;
    END IF;
    RETURN QUERY SELECT w.run, w.due_in FROM farrier.write_nodes(changes) w;
END $$;

-- Whether a node is to use, or has, anything.
CREATE FUNCTION farrier.has_networks(of_node bigint) RETURNS boolean
    LANGUAGE sql STABLE
    RETURN EXISTS (SELECT FROM farrier.node_uses u WHERE u.node = of_node)
        OR EXISTS (SELECT FROM farrier.segment_addresses a WHERE a.node = of_node)
        OR EXISTS (SELECT FROM farrier.ib_members m WHERE m.node = of_node AND m.state <> 'leaving');

-- What stage `cleanup_secrets` has still to remove, as the tables have it; null in any other stage.
CREATE FUNCTION farrier.secrets_left(of_node bigint, of_decommission bigint) RETURNS jsonb
    LANGUAGE sql STABLE
    RETURN (SELECT coalesce(jsonb_agg(l.what) FILTER (WHERE l.what IS NOT NULL), '[]')
              FROM farrier.node_decommissions d
              LEFT JOIN LATERAL (VALUES
                   ('a bootstrap token', EXISTS (SELECT FROM farrier.bootstrap_tokens t
                                                  WHERE t.node_id = of_node AND t.used_at IS NULL AND t.revoked_at IS NULL)),
                   ('the agent''s key', EXISTS (SELECT FROM farrier.node_agents a WHERE a.node_id = of_node)),
                   ('addresses or memberships', farrier.has_networks(of_node))) l (what, there) ON l.there
             WHERE d.id = of_decommission AND d.stage = 'cleanup_secrets' HAVING count(d.id) > 0);

-- A node that is deleted has nothing, whoever deletes it.
CREATE FUNCTION farrier.drop_networks() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    PERFORM use_networks(NEW.id, '{}', '{}');
    DELETE FROM node_ib_ports p WHERE p.node = NEW.id;
    RETURN NULL;
END $$;
CREATE TRIGGER drop_networks AFTER UPDATE ON farrier.nodes
    FOR EACH ROW WHEN (NEW.status = 'deleted' AND OLD.status <> 'deleted') EXECUTE FUNCTION farrier.drop_networks();

-- Who waits for something is woken as it comes: nodes that are being onboarded, and are to use this.
CREATE FUNCTION farrier.wake_users(of_kind text, called text) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
    INSERT INTO wake_requests (kind, id)
    SELECT 'node', n.id FROM node_uses u JOIN nodes n ON n.id = u.node
     WHERE u.kind = of_kind AND u.name = called AND n.live_workflow_kind = 'onboarding';
$$;
CREATE FUNCTION farrier.wake_users_of_this() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    PERFORM wake_users(TG_ARGV[0], NEW.name);
    RETURN NULL;
END $$;
CREATE TRIGGER wake_users AFTER UPDATE ON farrier.network_segments
    FOR EACH ROW WHEN ((NEW.state = 'ready' AND OLD.state <> 'ready') OR NEW.prefixes <> OLD.prefixes)
    EXECUTE FUNCTION farrier.wake_users_of_this('network_segment');
CREATE TRIGGER wake_users AFTER INSERT ON farrier.ib_partitions
    FOR EACH ROW EXECUTE FUNCTION farrier.wake_users_of_this('ib_partition');

-- The partition's own commit tells nodes what became of their ports.
CREATE FUNCTION farrier.wake_members() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    INSERT INTO wake_requests (kind, id)
    SELECT DISTINCT 'node', n.id FROM was JOIN became USING (partition, guid) JOIN nodes n ON n.id = became.node
     WHERE (was.state, was.reason) IS DISTINCT FROM (became.state, became.reason) AND became.state IN ('applied', 'refused')
       AND n.live_workflow_kind = 'onboarding';
    RETURN NULL;
END $$;
CREATE TRIGGER wake_members AFTER UPDATE ON farrier.ib_members
    REFERENCING OLD TABLE AS was NEW TABLE AS became FOR EACH STATEMENT EXECUTE FUNCTION farrier.wake_members();

-- What people are shown of it: whatever is there for the node, also what others took for it.
CREATE FUNCTION farrier.node_holds(of_node bigint) RETURNS TABLE (ib_guids text[], addresses jsonb, memberships jsonb)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
    SELECT (SELECT p.guids FROM node_ib_ports p WHERE p.node = of_node),
           (SELECT coalesce(jsonb_agg(jsonb_build_object('segment', s.name, 'address', host(a.address), 'owner', a.owner) ORDER BY s.name, a.address), '[]')
              FROM segment_addresses a JOIN network_segments s ON s.id = a.segment WHERE a.node = of_node),
           (SELECT coalesce(jsonb_agg(jsonb_build_object('partition', p.name, 'guid', m.guid, 'state', m.state) ORDER BY p.name, m.guid), '[]')
              FROM ib_members m JOIN ib_partitions p ON p.id = m.partition WHERE m.node = of_node);
$$;

SELECT farrier.let_call('farrier_intents', 'farrier.set_ib_ports(text,text[])');
SELECT farrier.let_call('farrier_reader', 'farrier.node_holds(bigint)');
SELECT farrier.grant_rights();
