-- Nodes, their workflows, agents, tasks and intents: the tables. Triggers and functions follow in later files.

CREATE TABLE farrier.nodes (
    id                    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name                  text        NOT NULL,
    site                  text,
    model                 text,
    labels                jsonb       NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(labels) = 'object'),
    agentless             boolean     NOT NULL DEFAULT false,
    auto_manage           boolean     NOT NULL DEFAULT true,
    maas_id               text,
    created_at            timestamptz NOT NULL DEFAULT farrier.now(),
    version               bigint      NOT NULL DEFAULT 1,
    status                text        NOT NULL,
    status_entered_at     timestamptz NOT NULL DEFAULT farrier.now(),
    management            text        NOT NULL,
    management_entered_at timestamptz NOT NULL DEFAULT farrier.now(),
    bmc_address           text,
    bmc_endpoint          text COLLATE "C",  -- host and port of the address; filled in by a trigger
    bmc_credential        text,       -- a reference, never a secret
    bmc                   jsonb       NOT NULL DEFAULT '{}',
    quarantine            jsonb,
    paused                jsonb,
    ever_onboarded        boolean     NOT NULL DEFAULT false,
    ever_active           boolean     NOT NULL DEFAULT false,
    not_scrubbed          boolean     NOT NULL DEFAULT false,
    deleting              boolean     NOT NULL DEFAULT false,
    live_workflow_kind    text CHECK (live_workflow_kind IN ('onboarding', 'decommission')),
    live_workflow_id      bigint,
    CONSTRAINT node_name_form CHECK (name ~ '^[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?$' AND name !~ '^[0-9]+$'),
    CONSTRAINT live_workflow_whole CHECK ((live_workflow_kind IS NULL) = (live_workflow_id IS NULL))
) WITH (fillfactor = 80);
-- A deleted node keeps its row and its history; its name and its BMC are free again.
CREATE UNIQUE INDEX nodes_name ON farrier.nodes (name) WHERE status <> 'deleted';
CREATE UNIQUE INDEX nodes_maas ON farrier.nodes (site, maas_id) NULLS NOT DISTINCT WHERE status <> 'deleted' AND maas_id IS NOT NULL;
CREATE INDEX nodes_status ON farrier.nodes (status, status_entered_at);

CREATE TABLE farrier.node_macs (
    mac     macaddr PRIMARY KEY,
    node_id bigint NOT NULL REFERENCES farrier.nodes
);
CREATE INDEX node_macs_node ON farrier.node_macs (node_id);

-- What an address claims, however it is spelled: with a path, that one system; without, the whole BMC with every system
-- behind it. Ranges of text, because "the whole" and "a part of it" have to exclude each other whoever comes first.
CREATE TYPE farrier.bmc_span AS RANGE (subtype = text, collation = "C");
CREATE FUNCTION farrier.bmc_span_of(address text) RETURNS farrier.bmc_span
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path = farrier, pg_temp AS $$
DECLARE
    bare text := regexp_replace(regexp_replace(address, '[?#].*$', ''), '^[A-Za-z][A-Za-z0-9+.-]*://', '');
    authority text := lower(regexp_replace(substring(bare FROM '^[^/]*'), '^.*@', ''));
    path text := rtrim(substring(bare FROM '/.*$'), '/');
    parts text[];
    host text;
    place text;
BEGIN
    IF authority ~ '^[^][]*:[^][]*:' THEN authority := '[' || authority || ']'; END IF;  -- IPv6, without brackets
    parts := regexp_match(authority, '^(.*?)(?::([0-9]*))?$');
    host := rtrim(parts[1], '.');
    IF host ~ '^\[.*\]$' THEN
        BEGIN
            host := regexp_replace(host(btrim(host, '[]')::inet), '^::ffff:(?=[0-9]+\.)', '');
        EXCEPTION WHEN invalid_text_representation THEN
            NULL;  -- no address that could be dialled; equal to nothing but itself
        END;
    END IF;
    place := host || ':' || coalesce(nullif(ltrim(parts[2], '0'), ''), '443');
    IF coalesce(path, '') = '' THEN
        RETURN bmc_span(place || '/', place || '0', '[)');  -- in this order of characters 0 follows on /
    END IF;
    RETURN bmc_span(place || path, place || path, '[]');
END $$;

-- Written by a trigger alone. Apart from the node, whose row changes with every move of its status.
CREATE TABLE farrier.node_bmcs (
    node_id bigint PRIMARY KEY REFERENCES farrier.nodes,
    span    farrier.bmc_span NOT NULL,
    CONSTRAINT node_bmcs_one EXCLUDE USING gist (span WITH &&)
);
CREATE FUNCTION farrier.claim_bmc() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    IF NEW.bmc_address IS NULL OR NEW.status = 'deleted' THEN
        DELETE FROM node_bmcs b WHERE b.node_id = NEW.id;
    ELSE
        INSERT INTO node_bmcs AS b VALUES (NEW.id, bmc_span_of(NEW.bmc_address))
            ON CONFLICT (node_id) DO UPDATE SET span = excluded.span;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER claim_bmc_insert AFTER INSERT ON farrier.nodes
    FOR EACH ROW WHEN (NEW.bmc_address IS NOT NULL) EXECUTE FUNCTION farrier.claim_bmc();
CREATE TRIGGER claim_bmc AFTER UPDATE ON farrier.nodes
    FOR EACH ROW WHEN (OLD.bmc_address IS DISTINCT FROM NEW.bmc_address OR (NEW.status = 'deleted' AND OLD.status <> 'deleted'))
    EXECUTE FUNCTION farrier.claim_bmc();

-- The name of another node whose BMC this address is, or shares; null when there is none.
CREATE FUNCTION farrier.bmc_holder(address text, except_node bigint) RETURNS text
    LANGUAGE sql STABLE SET search_path = farrier, pg_temp
    RETURN (SELECT min(n.name) FROM farrier.node_bmcs b JOIN farrier.nodes n ON n.id = b.node_id
             WHERE b.span && farrier.bmc_span_of(address) AND b.node_id IS DISTINCT FROM except_node);

-- The logins at each BMC that are not known to have succeeded, by node: the `tries` of the nodes, kept where they were
-- made. They outlive the node and its address by five minutes, because the account that a BMC may lock does, too. `open` is
-- the one that may be under way. Written by a trigger alone.
CREATE TABLE farrier.bmc_logins (
    endpoint text COLLATE "C" NOT NULL,
    node_id  bigint      NOT NULL REFERENCES farrier.nodes,
    at       timestamptz NOT NULL,
    open     boolean     NOT NULL,
    PRIMARY KEY (endpoint, node_id, at)
);
CREATE INDEX bmc_logins_at ON farrier.bmc_logins (at);
CREATE FUNCTION farrier.bmc_endpoint_of(address text) RETURNS text
    LANGUAGE sql IMMUTABLE STRICT RETURN split_part(lower(farrier.bmc_span_of(address)), '/', 1);
-- Kept in the node's row, because every snapshot looks for logins there: a way over `node_bmcs` takes twice as long.
CREATE FUNCTION farrier.place_bmc() RETURNS trigger LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
BEGIN
    NEW.bmc_endpoint := bmc_endpoint_of(NEW.bmc_address);
    RETURN NEW;
END $$;
CREATE TRIGGER place_bmc_insert BEFORE INSERT ON farrier.nodes
    FOR EACH ROW WHEN (NEW.bmc_address IS NOT NULL) EXECUTE FUNCTION farrier.place_bmc();
CREATE TRIGGER place_bmc BEFORE UPDATE ON farrier.nodes
    FOR EACH ROW WHEN (OLD.bmc_address IS DISTINCT FROM NEW.bmc_address) EXECUTE FUNCTION farrier.place_bmc();

CREATE FUNCTION farrier.note_logins() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    place text := coalesce(NEW.bmc_endpoint, OLD.bmc_endpoint);
    before jsonb := coalesce(OLD.bmc -> 'tries', '[]');
    after jsonb := coalesce(NEW.bmc -> 'tries', '[]');
BEGIN
    -- Any node removes old rows, of whichever BMC: nodes that are deleted remove none. One that waited for a row that another
    -- removes could wait in a circle.
    DELETE FROM bmc_logins WHERE ctid = ANY (ARRAY(
        SELECT l.ctid FROM bmc_logins l WHERE l.at <= farrier.now() - interval '5 minutes' LIMIT 100 FOR UPDATE SKIP LOCKED));
    DELETE FROM bmc_logins WHERE ctid = ANY (ARRAY(
        SELECT l.ctid FROM bmc_logins l
         WHERE l.endpoint = place AND l.node_id = NEW.id AND l.at NOT IN (SELECT t::timestamptz FROM jsonb_array_elements_text(after) t)
           FOR UPDATE SKIP LOCKED));
    -- What it tried before was perhaps tried elsewhere.
    INSERT INTO bmc_logins AS l (endpoint, node_id, at, open)
    SELECT place, NEW.id, t::timestamptz, true FROM jsonb_array_elements_text(after) t
     WHERE place IS NOT NULL AND NOT before @> to_jsonb(t)
        ON CONFLICT DO NOTHING;
    UPDATE bmc_logins SET open = NOT open WHERE ctid = ANY (ARRAY(
        SELECT l.ctid FROM bmc_logins l
         WHERE l.endpoint IN (place, OLD.bmc_endpoint) AND l.node_id = NEW.id
           AND l.open <> coalesce(l.at = (NEW.bmc ->> 'trying')::timestamptz, false)
           FOR NO KEY UPDATE SKIP LOCKED));
    RETURN NULL;
END $$;
CREATE TRIGGER note_logins_insert AFTER INSERT ON farrier.nodes
    FOR EACH ROW WHEN (NEW.bmc ? 'tries') EXECUTE FUNCTION farrier.note_logins();
CREATE TRIGGER note_logins AFTER UPDATE ON farrier.nodes
    FOR EACH ROW WHEN (NEW.status <> 'deleted'  -- whose failures count for the node that has the BMC next
          AND (OLD.bmc -> 'tries' IS DISTINCT FROM NEW.bmc -> 'tries' OR OLD.bmc -> 'trying' IS DISTINCT FROM NEW.bmc -> 'trying'))
    EXECUTE FUNCTION farrier.note_logins();

-- What other nodes tried at this address; null for nothing.
CREATE FUNCTION farrier.bmc_logins_at(address text, except_node bigint) RETURNS jsonb
    LANGUAGE sql STABLE
    RETURN (SELECT jsonb_agg(jsonb_build_object('at', l.at, 'open', l.open)) FROM farrier.bmc_logins l
             WHERE l.endpoint = farrier.bmc_endpoint_of(address) AND l.node_id <> except_node);

-- Single use, stored hashed, worthless after `expires_at`.
CREATE TABLE farrier.bootstrap_tokens (
    hash       bytea       PRIMARY KEY,
    node_id    bigint      NOT NULL REFERENCES farrier.nodes,
    issued_at  timestamptz NOT NULL DEFAULT farrier.now(),
    expires_at timestamptz NOT NULL,
    used_at    timestamptz,
    revoked_at timestamptz
);
CREATE INDEX bootstrap_tokens_node ON farrier.bootstrap_tokens (node_id);

-- The agent on a node: one row, rewritten by every heartbeat.
CREATE TABLE farrier.node_agents (
    node_id           bigint      PRIMARY KEY REFERENCES farrier.nodes,
    key_hash          bytea       NOT NULL,
    facts             jsonb       NOT NULL DEFAULT '{}',
    enrolled_at       timestamptz NOT NULL DEFAULT farrier.now(),
    last_heartbeat_at timestamptz,
    health            jsonb       NOT NULL DEFAULT '{}',
    ssh_seed_failures integer     NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

CREATE TABLE farrier.node_onboardings (
    id                bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    node_id           bigint      NOT NULL REFERENCES farrier.nodes,
    mode              text,
    status            text        NOT NULL DEFAULT 'pending',
    status_entered_at timestamptz NOT NULL DEFAULT farrier.now(),
    stage             text,
    stage_entered_at  timestamptz NOT NULL DEFAULT farrier.now(),
    attempt           integer     NOT NULL DEFAULT 1,
    next_attempt_at   timestamptz,
    failure_class     text,
    failure_detail    text,
    stop_requested    text,
    after_undo        text,
    mode_given_at     timestamptz,
    options           jsonb       NOT NULL DEFAULT '{}',
    skipped           jsonb       NOT NULL DEFAULT '[]',
    created_at        timestamptz NOT NULL DEFAULT farrier.now(),
    ended_at          timestamptz
);
CREATE UNIQUE INDEX node_onboardings_live ON farrier.node_onboardings (node_id)
    WHERE status NOT IN ('completed', 'cancelled', 'reconciled');
CREATE INDEX node_onboardings_node ON farrier.node_onboardings (node_id, id);

CREATE TABLE farrier.node_decommissions (LIKE farrier.node_onboardings INCLUDING DEFAULTS INCLUDING IDENTITY);
ALTER TABLE farrier.node_decommissions ADD PRIMARY KEY (id), ADD FOREIGN KEY (node_id) REFERENCES farrier.nodes,
    ALTER COLUMN mode SET NOT NULL;
CREATE UNIQUE INDEX node_decommissions_live ON farrier.node_decommissions (node_id)
    WHERE status NOT IN ('completed', 'cancelled', 'reconciled');
CREATE INDEX node_decommissions_node ON farrier.node_decommissions (node_id, id);

CREATE TABLE farrier.node_tasks (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    node_id       bigint      NOT NULL REFERENCES farrier.nodes,
    workflow_id   bigint      NOT NULL REFERENCES farrier.node_decommissions,
    type          text        NOT NULL,
    status        text        NOT NULL DEFAULT 'queued'
                  CHECK (status IN ('queued', 'dispatched', 'succeeded', 'failed', 'expired', 'cancelled')),
    params        jsonb       NOT NULL DEFAULT '{}',
    attempt       integer     NOT NULL DEFAULT 1,
    failures      integer     NOT NULL DEFAULT 0,
    claimed_by    text,       -- 'agent of NODE' or 'worker LOGIN'
    lease_token   uuid,
    lease_until   timestamptz,
    result        jsonb,
    created_at    timestamptz NOT NULL DEFAULT farrier.now(),
    dispatched_at timestamptz,
    ended_at      timestamptz
);
CREATE UNIQUE INDEX node_tasks_live ON farrier.node_tasks (node_id, type) WHERE status IN ('queued', 'dispatched');
CREATE INDEX node_tasks_queued ON farrier.node_tasks (type, id) WHERE status = 'queued';
CREATE INDEX node_tasks_workflow ON farrier.node_tasks (workflow_id, type, id);
CREATE INDEX node_tasks_node ON farrier.node_tasks (node_id, id);

-- Logins that may work on tasks of several nodes, of which types and at which site (null: at any). Written by
-- grant_worker and revoke_worker.
CREATE TABLE farrier.workers (
    login      text        PRIMARY KEY,
    types      text[]      NOT NULL,
    site       text,
    granted_at timestamptz NOT NULL DEFAULT farrier.now(),
    granted_by text        NOT NULL DEFAULT session_user
);

CREATE TABLE farrier.intents (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    node            text        NOT NULL,        -- name or id, as it was given
    node_id         bigint      NOT NULL REFERENCES farrier.nodes,
    action          text        NOT NULL,
    params          jsonb       NOT NULL DEFAULT '{}',
    api_version     integer,
    idempotency_key text,
    requested_by    text,
    status          text        NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'accepted', 'rejected', 'superseded')),
    reason          text,
    created_at      timestamptz NOT NULL DEFAULT farrier.now(),
    answered_at     timestamptz,
    CONSTRAINT intent_size CHECK (octet_length(params::text) <= 16384)
);
CREATE UNIQUE INDEX intents_key ON farrier.intents (node_id, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX intents_pending ON farrier.intents (node_id, id) WHERE status = 'pending';
CREATE INDEX intents_node ON farrier.intents (node_id, id);

-- What the plpgsql side has to know of the model and of the configuration; filled from them, never edited.
CREATE TABLE farrier.actions (
    action       text    PRIMARY KEY,
    since        integer NOT NULL,
    interrupts   boolean NOT NULL,     -- while one is pending, a step that only reads is cut short
    while_paused boolean NOT NULL,     -- not held back by a pause
    params       jsonb   NOT NULL
);
CREATE TABLE farrier.workflow_mapping (
    kind            text NOT NULL,
    workflow_status text NOT NULL,
    node_status     text NOT NULL,
    PRIMARY KEY (kind, workflow_status, node_status)
);
CREATE TABLE farrier.settings (
    name  text PRIMARY KEY,
    value jsonb NOT NULL
);
INSERT INTO farrier.settings VALUES ('offline_after_seconds', '180'), ('api_min', '1'), ('api_max', '1');
