-- InfiniBand partitions: their numbers, what their services may use, and which ports are their members.

CREATE TABLE farrier.ib_partitions (
    LIKE farrier.resources INCLUDING ALL,
    pkey          integer NOT NULL CHECK (pkey BETWEEN 1 AND 32766),
    mtu_limit     integer NOT NULL DEFAULT 2 CHECK (mtu_limit IN (2, 4)),     -- KiB
    rate_limit    text    NOT NULL DEFAULT '2.5' CHECK (rate_limit IN (       -- Gb/s
        '2.5', '5', '10', '14', '20', '25', '30', '40', '56', '60', '80', '100', '112', '120', '168', '200', '300')),
    service_level integer NOT NULL DEFAULT 0 CHECK (service_level BETWEEN 0 AND 15),
    ip_over_ib    boolean NOT NULL DEFAULT true,
    index0        boolean NOT NULL DEFAULT false,
    claimed_at    timestamptz,                          -- since when the number is ours in UFM
    claimed_in    text    NOT NULL DEFAULT '',          -- in which UFM: its URL
    asked_at      timestamptz,                          -- since when UFM has not done what it took
    absent_at     timestamptz,                          -- since when UFM was seen without it, while it is deleted
    draining      boolean NOT NULL DEFAULT false,       -- deleted although it had members
    fabric_name   text    NOT NULL DEFAULT '',          -- what UFM calls it
    strangers     jsonb   NOT NULL DEFAULT '[]'         -- ports in UFM that nobody asked for: [{guid, seen_at}]
);
CREATE INDEX ib_partitions_ended_name ON farrier.ib_partitions (name) WHERE ended_at IS NOT NULL;

CREATE TABLE farrier.ib_members (
    partition  bigint      NOT NULL REFERENCES farrier.ib_partitions,
    guid       text        NOT NULL CHECK (guid ~ '^[0-9a-f]{16}$'),
    owner      text        NOT NULL CHECK (owner ~ '\S' AND char_length(owner) <= 253),
    node       bigint      REFERENCES farrier.nodes,
    membership text        NOT NULL DEFAULT 'full' CHECK (membership IN ('full', 'limited')),
    state      text        NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'applied', 'refused', 'leaving')),
    reason     text,                                    -- why UFM refuses it
    since      timestamptz NOT NULL DEFAULT farrier.now(),  -- in this state
    seq        bigint      NOT NULL DEFAULT 1,          -- counts what was asked of it
    PRIMARY KEY (partition, guid)
) WITH (fillfactor = 80);
CREATE INDEX ib_members_node ON farrier.ib_members (node) WHERE node IS NOT NULL;
CREATE INDEX ib_members_guid ON farrier.ib_members (guid);

-- Every number of a pool is one that a partition can have: the lowest is given first, so one that no partition can have would
-- be tried by all, for ever.
CREATE FUNCTION farrier.check_pkey_pool() RETURNS trigger
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
BEGIN
    IF NEW.first < 1 OR NEW.last > 32766 THEN
        RAISE EXCEPTION 'pool % would go from % to %, and keys of partitions from 1 (0x0001) to 32766 (0x7ffe)',
            NEW.pool, NEW.first, NEW.last
            USING ERRCODE = 'FR400', HINT = '0x7fff is the key of UFM itself.';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER check_pkey_pool BEFORE INSERT OR UPDATE ON farrier.number_pools FOR EACH ROW
    WHEN (NEW.pool = 'pkey' OR starts_with(NEW.pool, 'pkey:')) EXECUTE FUNCTION farrier.check_pkey_pool();

-- A partition takes its number as it is made; the pool is that of its site.
CREATE FUNCTION farrier.take_pkey() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    IF NEW.mtu_limit NOT IN (2, 4) THEN
        RAISE EXCEPTION 'mtu_limit is 2 or 4, in KiB; got %', NEW.mtu_limit USING ERRCODE = 'FR400';
    END IF;
    NEW.pkey := take_number(CASE WHEN NEW.site IS NULL THEN 'pkey' ELSE 'pkey:' || NEW.site END,
                            'ib_partition', NEW.id, NEW.pkey);
    RETURN NEW;
END $$;
CREATE TRIGGER take_pkey BEFORE INSERT ON farrier.ib_partitions FOR EACH ROW EXECUTE FUNCTION farrier.take_pkey();

CREATE FUNCTION farrier.ib_guid(given text) RETURNS text
    LANGUAGE plpgsql IMMUTABLE SET search_path = farrier, pg_temp AS $$
BEGIN
    IF given IS NULL OR given !~* '\A(0x)?[0-9a-f]{16}\Z' THEN
        RAISE EXCEPTION '% is no GUID of a port: 16 hexadecimal digits were expected', coalesce(quote_literal(given), 'null')
            USING ERRCODE = 'FR400', HINT = 'ibstat shows it as Port GUID.';
    END IF;
    RETURN right(lower(given), 16);
END $$;

-- Makes a port a member, for an owner who names whose it is. May be called again; whoever calls with another membership
-- changes it. Answers the member's state: pending until UFM has it, then applied; refused when UFM does not take it.
CREATE FUNCTION farrier.join_partition(partition text, guid text, owner text, node bigint DEFAULT NULL, membership text DEFAULT 'full')
    RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
#variable_conflict use_column
DECLARE
    port text := ib_guid(join_partition.guid);
    of_id bigint := find_resource('ib_partition', join_partition.partition);
    known ib_members;
    answer text;
BEGIN
    IF join_partition.owner IS NULL OR join_partition.owner !~ '\S' OR char_length(join_partition.owner) > 253 THEN
        RAISE EXCEPTION 'owner says whose the port is, in 1 to 253 characters' USING ERRCODE = 'FR400';
    END IF;
    IF join_partition.membership IS NULL OR join_partition.membership NOT IN ('full', 'limited') THEN
        RAISE EXCEPTION 'membership is full or limited; got %', coalesce(quote_literal(join_partition.membership), 'null')
            USING ERRCODE = 'FR400';
    END IF;
    IF join_partition.node IS NOT NULL AND NOT EXISTS (SELECT FROM nodes n WHERE n.id = join_partition.node AND n.status <> 'deleted') THEN
        RAISE EXCEPTION 'no node has the id %', join_partition.node USING ERRCODE = 'FR404';
    END IF;
    PERFORM refuse_joining(of_id);
    SELECT m.* INTO known FROM ib_members m WHERE m.partition = of_id AND m.guid = port;
    IF known.state <> 'leaving' AND known.owner = join_partition.owner AND known.membership = join_partition.membership
       AND known.node IS NOT DISTINCT FROM join_partition.node THEN
        RETURN known.state;
    END IF;
    -- First, so that COMMIT locks the schedule's row before `admit_member` locks the partition's, as the loop does.
    PERFORM enqueue('ib_partition', of_id);
    INSERT INTO ib_members AS m (partition, guid, owner, node, membership)
    VALUES (of_id, port, join_partition.owner, join_partition.node, join_partition.membership)
        ON CONFLICT ON CONSTRAINT ib_members_pkey DO UPDATE
       SET owner = excluded.owner, node = excluded.node, membership = excluded.membership, state = 'pending', reason = NULL,
           since = farrier.now(), seq = m.seq + 1
     WHERE m.owner = excluded.owner OR m.state = 'leaving'
    RETURNING m.state INTO answer;
    IF answer IS NULL THEN
        PERFORM refuse_other_owner(of_id, port);
    END IF;
    RETURN answer;
END $$;

-- Ends a membership; UFM is told, and then the member is gone. May be called again, and when there never was one.
CREATE FUNCTION farrier.leave_partition(partition text, guid text, owner text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
#variable_conflict use_column
DECLARE
    port text := ib_guid(leave_partition.guid);
    of_id bigint;
    known ib_members;
BEGIN
    IF leave_partition.partition ~ '^[0-9]{1,18}$' THEN
        SELECT p.id INTO of_id FROM ib_partitions p WHERE p.id = leave_partition.partition::bigint;
    ELSE
        SELECT p.id INTO of_id FROM ib_partitions p WHERE p.name = leave_partition.partition AND p.ended_at IS NULL;
        IF of_id IS NULL AND EXISTS (SELECT FROM ib_partitions p WHERE p.name = leave_partition.partition AND p.ended_at IS NOT NULL) THEN
            RETURN;  -- it has no members any more
        END IF;
    END IF;
    IF of_id IS NULL THEN of_id := find_resource('ib_partition', leave_partition.partition); END IF;
    -- Looked at first without a lock, which would be held to the end of the transaction for nothing.
    SELECT m.* INTO known FROM ib_members m WHERE m.partition = of_id AND m.guid = port;
    IF NOT FOUND OR (known.state = 'leaving' AND known.owner = leave_partition.owner) THEN RETURN; END IF;
    SELECT m.* INTO known FROM ib_members m WHERE m.partition = of_id AND m.guid = port FOR NO KEY UPDATE;
    IF NOT FOUND OR (known.state = 'leaving' AND known.owner = leave_partition.owner) THEN RETURN; END IF;
    IF known.owner IS DISTINCT FROM leave_partition.owner THEN
        PERFORM refuse_other_owner(of_id, port);
    END IF;
    PERFORM enqueue('ib_partition', of_id);
    UPDATE ib_members m SET state = 'leaving', reason = NULL, since = farrier.now(), seq = m.seq + 1
     WHERE m.partition = of_id AND m.guid = port;
END $$;

CREATE FUNCTION farrier.refuse_joining(of_id bigint) RETURNS void
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
DECLARE
    found record;
BEGIN
    SELECT p.name, p.state INTO found FROM ib_partitions p WHERE p.id = of_id;
    IF found.state IN ('deleting', 'gone') THEN
        RAISE EXCEPTION 'IB partition % is being deleted and takes no members', found.name
            USING ERRCODE = 'FR409', HINT = 'Its name and its number are free again when it is gone.';
    END IF;
END $$;

CREATE FUNCTION farrier.refuse_other_owner(of_id bigint, port text) RETURNS void
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
DECLARE
    found record;
BEGIN
    SELECT p.name, m.owner INTO found FROM ib_partitions p JOIN ib_members m ON m.partition = p.id WHERE p.id = of_id AND m.guid = port;
    RAISE EXCEPTION 'port % is a member of IB partition % for %', port, found.name, found.owner
        USING ERRCODE = 'FR409', HINT = 'Whoever made it a member ends that, by the same owner.';
END $$;

-- Whoever joins, and a deletion that has seen no members, meet at the partition's row: one of the two is refused.
CREATE FUNCTION farrier.admit_member() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    PERFORM FROM ib_partitions p WHERE p.id = NEW.partition FOR SHARE;
    PERFORM refuse_joining(NEW.partition);
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER admit_new AFTER INSERT ON farrier.ib_members
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION farrier.admit_member();
CREATE CONSTRAINT TRIGGER admit_again AFTER UPDATE ON farrier.ib_members
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.seq <> OLD.seq AND NEW.state <> 'leaving')
    EXECUTE FUNCTION farrier.admit_member();

-- Its number as UFM, subnet managers and hosts write it.
CREATE FUNCTION farrier.ib_partition_detail(id bigint) RETURNS jsonb
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
    SELECT jsonb_build_object('pkey_hex', '0x' || to_hex(p.pkey)) FROM ib_partitions p WHERE p.id = $1;
$$;

-- Members of a partition that has not ended, or of all.
CREATE FUNCTION farrier.partition_members(partition text DEFAULT NULL)
    RETURNS TABLE (partition text, guid text, owner text, node text, membership text, state text, reason text, since timestamptz)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
    SELECT p.name, m.guid, m.owner, n.name, m.membership, m.state, m.reason, m.since
      FROM ib_members m JOIN ib_partitions p ON p.id = m.partition LEFT JOIN nodes n ON n.id = m.node
     WHERE $1 IS NULL OR p.id = (SELECT find_resource('ib_partition', $1))  -- asked once, and not for each member
     ORDER BY p.name, m.owner, m.guid;
$$;

-- Partitions of a commit, and what became of their members. It waits for no client: a partition that somebody holds, or one
-- that ends while somebody holds a member of it, is decided anew in a second; a member that somebody holds is about to be
-- something else, and is left to the next run. A deletion that has overlooked a member is decided anew; one that ends gives
-- its number back.
CREATE FUNCTION farrier.write_ib_partitions(changes jsonb) RETURNS TABLE (run bigint, due_in interval)
    LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    unwritten bigint[] := farrier.held_partitions(changes);
BEGIN
    IF cardinality(unwritten) > 0 THEN
        RETURN QUERY SELECT u, interval '1 second' FROM unnest(unwritten) u;
        changes := farrier.runs_without(changes, unwritten);
        IF jsonb_array_length(changes -> 'runs') = 0 THEN RETURN; END IF;
    END IF;
    unwritten := ARRAY(
        SELECT c.run FROM jsonb_to_recordset(changes -> 'resources') c (run bigint, state text, draining boolean)
         WHERE (c.state = 'gone' OR (c.state = 'deleting' AND NOT c.draining))
           AND EXISTS (SELECT FROM farrier.ib_members m WHERE m.partition = c.run AND m.state <> 'leaving'));
    IF cardinality(unwritten) > 0 THEN
        RETURN QUERY SELECT u, interval '0' FROM unnest(unwritten) u;
        changes := farrier.runs_without(changes, unwritten);
        IF jsonb_array_length(changes -> 'runs') = 0 THEN RETURN; END IF;
    END IF;
    unwritten := ARRAY(SELECT w.run FROM farrier.write_resources(changes) w);
    IF cardinality(unwritten) > 0 THEN
        RETURN QUERY SELECT u, interval '0' FROM unnest(unwritten) u;
        changes := farrier.runs_without(changes, unwritten);
    END IF;
    WITH free AS MATERIALIZED (
        SELECT m.partition, m.guid, c.state, c.reason
          FROM jsonb_to_recordset(changes -> 'marks') c (run bigint, guid text, seq bigint, state text, reason text)
          JOIN farrier.ib_members m ON m.partition = c.run AND m.guid = c.guid AND m.seq = c.seq
         ORDER BY m.partition, m.guid FOR NO KEY UPDATE OF m SKIP LOCKED)
    UPDATE farrier.ib_members m
       SET state = f.state, reason = f.reason, since = CASE WHEN m.state = f.state THEN m.since ELSE farrier.now() END
      FROM free f WHERE m.partition = f.partition AND m.guid = f.guid;
    WITH free AS MATERIALIZED (
        SELECT m.partition, m.guid FROM jsonb_to_recordset(changes -> 'left') c (run bigint, guid text, seq bigint)
          JOIN farrier.ib_members m ON m.partition = c.run AND m.guid = c.guid AND m.seq = c.seq AND m.state = 'leaving'
         ORDER BY m.partition, m.guid FOR UPDATE OF m SKIP LOCKED)
    DELETE FROM farrier.ib_members m USING free f WHERE m.partition = f.partition AND m.guid = f.guid;
    DELETE FROM farrier.ib_members m
     USING jsonb_to_recordset(changes -> 'resources') c (run bigint, state text) WHERE c.state = 'gone' AND m.partition = c.run;
    PERFORM farrier.free_numbers('ib_partition', c.run)
       FROM jsonb_to_recordset(changes -> 'resources') c (run bigint, state text) WHERE c.state = 'gone';
END $$;

-- Runs whose partition somebody holds, or which end it while somebody holds a member. The others are locked.
CREATE FUNCTION farrier.held_partitions(changes jsonb) RETURNS bigint[]
    LANGUAGE plpgsql AS $$
DECLARE
    free bigint[];
    ending bigint[] := ARRAY(
        SELECT c.run FROM jsonb_to_recordset(changes -> 'resources') c (run bigint, state text) WHERE c.state = 'gone');
    busy bigint[] := '{}';
BEGIN
    free := ARRAY(
        SELECT p.id FROM farrier.ib_partitions p JOIN jsonb_to_recordset(changes -> 'runs') c (run bigint) ON c.run = p.id
         ORDER BY p.id FOR NO KEY UPDATE OF p SKIP LOCKED);
    IF ending <> '{}' THEN
        WITH unheld AS MATERIALIZED (
            SELECT m.partition, m.guid FROM farrier.ib_members m WHERE m.partition = ANY (ending)
             ORDER BY m.partition, m.guid FOR UPDATE SKIP LOCKED)
        SELECT coalesce(array_agg(DISTINCT m.partition), '{}') INTO busy FROM farrier.ib_members m
         WHERE m.partition = ANY (ending) AND NOT EXISTS (SELECT FROM unheld u WHERE u.partition = m.partition AND u.guid = m.guid);
    END IF;
    RETURN ARRAY(SELECT c.run FROM jsonb_to_recordset(changes -> 'runs') c (run bigint) WHERE c.run <> ALL (free) OR c.run = ANY (busy));
END $$;
CREATE FUNCTION farrier.runs_without(changes jsonb, runs bigint[]) RETURNS jsonb
    LANGUAGE sql STABLE
    RETURN farrier.of_runs(changes, ARRAY(
        SELECT c.run FROM jsonb_to_recordset(changes -> 'runs') c (run bigint) WHERE c.run <> ALL (runs)));

SELECT farrier.make_kind('ib_partition', 'farrier.ib_partitions');
SELECT farrier.let_call(role_name, function)
  FROM unnest(ARRAY['farrier_intents', 'farrier_controller']) role_name,
       unnest(ARRAY['farrier.join_partition(text,text,text,bigint,text)', 'farrier.leave_partition(text,text,text)']) function;
SELECT farrier.let_call(role_name, 'farrier.partition_members(text)')
  FROM unnest(ARRAY['farrier_intents', 'farrier_reader', 'farrier_controller']) role_name;
SELECT farrier.grant_rights();
