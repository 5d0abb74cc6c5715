-- The model and the configuration, for triggers, functions and views. Migrations and controllers write these tables; do not edit them
-- by hand.

-- The changes that a layer of a resource may make. Triggers refuse all other changes.
CREATE TABLE farrier.edges (
    kind       text NOT NULL,  -- one of farrier.kinds
    layer      text NOT NULL,  -- one of farrier.kind_layers
    from_value text NOT NULL,
    to_value   text NOT NULL,
    PRIMARY KEY (kind, layer, from_value, to_value)
);

-- The status of a node for each status of its workflow, both while the workflow is live and in the commit that ends it; see
-- check_pair.
CREATE TABLE farrier.workflow_mapping (
    kind            text NOT NULL,  -- onboarding or decommission; none, also as the status, for a node without a live workflow
    workflow_status text NOT NULL,
    node_status     text NOT NULL,
    PRIMARY KEY (kind, workflow_status, node_status)
);

-- Properties of each status of a workflow, the same for both kinds.
CREATE TABLE farrier.workflow_statuses (
    status    text    PRIMARY KEY,
    ended     boolean NOT NULL,  -- the workflow has ended
    succeeded boolean NOT NULL,  -- the workflow reached its goal
    failed    boolean NOT NULL,  -- the workflow waits for another attempt or for an operator
    at_work   boolean NOT NULL   -- the workflow goes on without an operator
);

-- The modes of workflows of both kinds.
CREATE TABLE farrier.workflow_modes (
    mode       text    PRIMARY KEY,
    uses_maas  boolean NOT NULL,    -- a workflow of this mode sends requests to MAAS
    own_system boolean NOT NULL     -- a decommission of this mode cleans the machine in its own system, not from outside
);

-- States of a machine in MAAS that contradict its node, which then gets a condition of source region.
CREATE TABLE farrier.contradictions (
    state    text   PRIMARY KEY,  -- as in node_observations
    statuses text[] NOT NULL,     -- statuses of nodes in service that the state contradicts
    lasts    boolean NOT NULL     -- a condition of source region does not end while the machine is in this state
);

-- The actions of intents for nodes, in addition to their rows in kind_actions.
CREATE TABLE farrier.actions (
    action       text    PRIMARY KEY,
    since        integer NOT NULL,  -- the version of the API in which it was added
    while_paused boolean NOT NULL,  -- the intent is handled even while the node is paused
    overtakes    boolean NOT NULL,  -- the intent is answered before a set_power whose action was sent and has no effect yet
    destructive  text               -- when it may erase, release, delete or switch off a machine; null: never
);

-- One row: constants of the model that functions read. Only migrations write it.
CREATE TABLE farrier.constants (
    only_one              boolean  PRIMARY KEY DEFAULT true CHECK (only_one),
    api_min               integer  NOT NULL,  -- the oldest version of the intent API that is supported
    api_max               integer  NOT NULL,  -- the newest version of the intent API that is supported
    confirmed_after       interval NOT NULL,  -- two readings of a machine at least this far apart confirm a state that both show
    login_cap             integer  NOT NULL,  -- failed logins that one BMC may receive within login_window
    login_window          interval NOT NULL,
    ssh_seed_limit        integer  NOT NULL,  -- failed SSH seeds in a row after which a node is unhealthy
    identity_placeholders text[]   NOT NULL,  -- values that vendors ship in place of serial numbers and UUIDs: patterns of LIKE in
                                              -- lower case, without separators
    brake_retry           interval NOT NULL,  -- after this time, farrier tries again to take a held node out of service
    pulse_lost            interval NOT NULL,  -- a controller or door that has not pulsed for so long is away
    reach_lost            interval NOT NULL,  -- doors that have reached no agent for so long are dead
    reach_expected        integer  NOT NULL,  -- but only if at least so many agents are expected
    evidence              jsonb    NOT NULL,  -- rules of the evidence that agents and workers report; see evidence_fault
    conditions_of_source  integer  NOT NULL   -- conditions that one source may state of one node
);

-- One row: settings that functions read. A migration writes the defaults, and each controller writes its own settings when it starts.
CREATE TABLE farrier.settings (
    only_one       boolean  PRIMARY KEY DEFAULT true CHECK (only_one),
    offline_after  interval NOT NULL,  -- node.offline_after
    brake_share    numeric  NOT NULL,  -- node.brake_share
    brake_at_least integer  NOT NULL,  -- node.brake_at_least
    brake_window   interval NOT NULL   -- node.brake_window
);

-- Conditions that stop the clock of a limit: the clock does not run in this state while the fact has this value; see still_clocks.
CREATE TABLE farrier.clock_stops (
    kind  text NOT NULL,  -- node, management or onboarding
    state text NOT NULL,
    fact  text NOT NULL,  -- management, manage_asked, onboarding (status of the newest onboarding) or has_mode
    value text NOT NULL,
    PRIMARY KEY (kind, state, fact, value)
);

-- The limits in force: how long a node and its workflow may stay in a state. A migration writes the defaults, and each controller
-- writes those of its settings when it starts.
CREATE TABLE farrier.limits (
    kind     text     NOT NULL,  -- node, management, onboarding or decommission
    state    text     NOT NULL,  -- end_to_end for the clock of a whole workflow
    substate text     NOT NULL,  -- stage of a running workflow; else empty
    scope    text     NOT NULL CHECK (scope IN ('', 'model', 'site')),  -- '' for all nodes; a limit of the site takes
                                                                        -- precedence over a limit of the model, and that
                                                                        -- over a limit for all nodes
    name     text     NOT NULL,  -- name of the site or model; else empty
    lasts    interval NOT NULL,
    PRIMARY KEY (kind, state, substate, scope, name)
);
