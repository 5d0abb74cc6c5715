-- The generic core: time, schedule, wakes, history, outcomes. Knows no kind of resource.

CREATE SCHEMA IF NOT EXISTS farrier;

-- The only place where SQL reads the time. A test database replaces this one function to move its clock.
CREATE FUNCTION farrier.now() RETURNS timestamptz
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN statement_timestamp();

-- One row is the schedule, the queue and the lock of one resource. Narrow, and rewritten twice a run: half-full pages
-- keep an update on its page, and vacuum comes early because a claim walks over what it has not removed yet.
CREATE TABLE farrier.schedule (
    kind             text        NOT NULL,
    id               bigint      NOT NULL,
    lane             smallint    NOT NULL DEFAULT 1 CHECK (lane IN (0, 1)),  -- 0 woken, 1 periodic
    reruns           smallint    NOT NULL DEFAULT 0,                         -- in a row, because of transitions
    due_at           timestamptz NOT NULL CHECK (isfinite(due_at)),          -- lag is measured from it; while claimed, the lease's end
    wake_seq         bigint      NOT NULL DEFAULT 0,
    claimed_wake_seq bigint,                                                 -- wake_seq as the claim took it
    claim_token      bigint,                                                 -- fencing token, random; null when nobody holds the row
    owner            uuid,                                                   -- the process that holds it
    outcome_key      integer,                                                -- checksum of the stored outcome: an unchanged one is not written again
    PRIMARY KEY (kind, id)
) WITH (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.2
);
CREATE INDEX schedule_due ON farrier.schedule (kind, lane, due_at);

-- What the last run of each resource said; written only when it changed.
CREATE TABLE farrier.outcomes (
    kind    text        NOT NULL,
    id      bigint      NOT NULL,
    at      timestamptz NOT NULL,
    outcome jsonb       NOT NULL,
    PRIMARY KEY (kind, id)
);

-- One row for each change of a layer, for ever by default. claim_token tells a commit whose reply was lost from one
-- that never happened.
CREATE TABLE farrier.history (
    kind              text        NOT NULL,
    id                bigint      NOT NULL,
    version           bigint      NOT NULL,
    layer             text        NOT NULL,
    from_value        text,
    to_value          text        NOT NULL,
    at                timestamptz NOT NULL,
    seconds_in_source double precision,
    cause             text        NOT NULL,
    reason            text        NOT NULL,
    source            text        NOT NULL,
    controller        uuid        NOT NULL,
    claim_token       bigint      NOT NULL,
    PRIMARY KEY (kind, id, version, layer)
);
CREATE INDEX history_at ON farrier.history (at);

-- Locks of things that have no row of their own: a row for each that was ever locked, by purpose and hash. Only the functions of
-- the owner lock them, unlike advisory locks, which any login may hold. They need not outlive a crash, so the table is not logged.
CREATE UNLOGGED TABLE farrier.locks (
    purpose text   NOT NULL,
    key     bigint NOT NULL,
    PRIMARY KEY (purpose, key)
);
-- Until the transaction ends. In the order of keys, so that no two wait for each other.
CREATE FUNCTION farrier.lock_keys(of_purpose text, keys text[]) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    wanted bigint[] := ARRAY(SELECT DISTINCT hashtextextended(k, 0) FROM unnest(keys) k ORDER BY 1);
BEGIN
    INSERT INTO locks SELECT of_purpose, w FROM unnest(wanted) w ORDER BY w ON CONFLICT DO NOTHING;
    PERFORM FROM locks l WHERE l.purpose = of_purpose AND l.key = ANY (wanted) ORDER BY l.key FOR UPDATE;
END $$;
-- Whether it was to be had without waiting.
CREATE FUNCTION farrier.try_lock_key(of_purpose text, wanted text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    INSERT INTO locks SELECT of_purpose, hashtextextended(wanted, 0)
     WHERE NOT EXISTS (SELECT FROM locks l WHERE l.purpose = of_purpose AND l.key = hashtextextended(wanted, 0))
        ON CONFLICT DO NOTHING;
    PERFORM FROM locks l WHERE l.purpose = of_purpose AND l.key = hashtextextended(wanted, 0) FOR UPDATE SKIP LOCKED;
    RETURN FOUND;
END $$;

-- The first row of a layer, from nothing to its first value, and who made it. It acts with the rights of its caller, a function
-- of the owner's: no other role may insert.
CREATE FUNCTION farrier.record_beginning(kind text, id bigint, version bigint, layer text, value text, cause text, reason text) RETURNS void
    LANGUAGE sql SET search_path = farrier, pg_temp AS $$
    INSERT INTO farrier.history (kind, id, version, layer, to_value, at, cause, reason, source, controller, claim_token)
    VALUES ($1, $2, $3, $4, $5, farrier.now(), $6, $7, 'database', '00000000-0000-0000-0000-000000000000', 0);
$$;

-- The edges and first values of farrier.model, filled from it by every migration run.
CREATE TABLE farrier.edges (
    kind       text NOT NULL,
    layer      text NOT NULL,
    from_value text NOT NULL,
    to_value   text NOT NULL,
    PRIMARY KEY (kind, layer, from_value, to_value)
);
CREATE TABLE farrier.initial_values (
    kind  text NOT NULL,
    layer text NOT NULL,
    value text NOT NULL,
    PRIMARY KEY (kind, layer, value)
);

-- Wakes asked for in a transaction, kept only until its COMMIT. They are applied there, all at once and in the order
-- of ids: a schedule row is locked for the length of the COMMIT and not of the client's transaction, and two clients
-- that wake the same resources in opposite order cannot deadlock. No row outlives its transaction, so none is logged.
CREATE UNLOGGED TABLE farrier.wake_requests (
    xact  xid8    NOT NULL DEFAULT pg_current_xact_id(),
    kind  text    NOT NULL,
    id    bigint  NOT NULL,
    first boolean NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX wake_requests_xact ON farrier.wake_requests (xact);

-- Volatile, so that it sees the rows that the running INSERT made before this one.
CREATE FUNCTION farrier.is_first_wake() RETURNS boolean
    LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
    SELECT NOT EXISTS (SELECT FROM wake_requests WHERE xact = pg_current_xact_id());
$$;
ALTER TABLE farrier.wake_requests ALTER COLUMN first SET DEFAULT farrier.is_first_wake();

CREATE FUNCTION farrier.apply_wakes() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    missing record;
BEGIN
    PERFORM FROM schedule s
      JOIN (SELECT DISTINCT kind, id FROM wake_requests WHERE xact = pg_current_xact_id()) w USING (kind, id)
     ORDER BY s.kind, s.id
       FOR NO KEY UPDATE OF s;
    SELECT w.kind, w.id INTO missing
      FROM wake_requests w
     WHERE w.xact = pg_current_xact_id()
       AND NOT EXISTS (SELECT FROM schedule s WHERE s.kind = w.kind AND s.id = w.id)
     LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'no % with id % is scheduled: it was never registered, or has been deleted', missing.kind, missing.id
            USING ERRCODE = 'FR404', HINT = 'A deleted resource takes no requests; a new registration makes a new id.';
    END IF;
    UPDATE schedule s
       SET wake_seq = s.wake_seq + 1,
           lane = CASE WHEN s.claim_token IS NULL THEN 0 ELSE s.lane END,
           due_at = CASE WHEN s.claim_token IS NOT NULL THEN s.due_at           -- its release will see wake_seq
                         WHEN s.lane = 0 THEN least(s.due_at, farrier.now())    -- keeps its place among the woken
                         ELSE farrier.now() END
      FROM (SELECT DISTINCT kind, id FROM wake_requests WHERE xact = pg_current_xact_id()) w
     WHERE s.kind = w.kind AND s.id = w.id;
    DELETE FROM wake_requests WHERE xact = pg_current_xact_id();
    NOTIFY farrier_wake;
    RETURN NULL;
END $$;

-- WHEN is decided as the row is inserted: a transaction that wakes ten thousand resources queues one call and not that
-- many, of which each would walk over all the rows that the first had deleted.
CREATE CONSTRAINT TRIGGER apply_wakes AFTER INSERT ON farrier.wake_requests
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.first) EXECUTE FUNCTION farrier.apply_wakes();

-- The one way to make a resource's handler run as soon as possible. Takes effect at COMMIT; there, an id that is not
-- scheduled is an error (FR404). May be called any number of times.
CREATE FUNCTION farrier.enqueue(kind text, id bigint) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
    INSERT INTO wake_requests (kind, id) VALUES ($1, $2);
$$;

-- Puts a new resource on the schedule; its first run comes within `spread`, so that a bulk load does not run at once.
CREATE FUNCTION farrier.schedule_new(kind text, id bigint, spread interval DEFAULT '30 seconds') RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
    INSERT INTO farrier.schedule (kind, id, due_at) VALUES ($1, $2, farrier.now() + random() * $3);
$$;
