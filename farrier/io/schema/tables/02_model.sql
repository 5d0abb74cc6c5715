-- The model and the configuration as triggers, functions and views read them. Written by every migration and by controllers,
-- never by hand.

-- The changes that a layer of a resource may make; triggers refuse all others.
CREATE TABLE farrier.edges (
    kind       text NOT NULL,  -- one of farrier.kinds
    layer      text NOT NULL,  -- one of farrier.kind_layers
    from_value text NOT NULL,
    to_value   text NOT NULL,
    PRIMARY KEY (kind, layer, from_value, to_value)
);

-- The status of a node that goes with the status of its workflow, when it is live and in the commit that ends it; see check_pair.
CREATE TABLE farrier.workflow_mapping (
    kind            text NOT NULL,  -- onboarding or decommission; none, also as the status, for a node without a live workflow
    workflow_status text NOT NULL,
    node_status     text NOT NULL,
    PRIMARY KEY (kind, workflow_status, node_status)
);

-- What each status of a workflow means; the same for both kinds.
CREATE TABLE farrier.workflow_statuses (
    status    text    PRIMARY KEY,
    ended     boolean NOT NULL,  -- the workflow has ended
    succeeded boolean NOT NULL,  -- it ended with what it was begun for
    failed    boolean NOT NULL,  -- it waits for another attempt or for an operator
    at_work   boolean NOT NULL   -- it goes on by itself
);

-- The modes of workflows of both kinds.
CREATE TABLE farrier.workflow_modes (
    mode      text    PRIMARY KEY,
    uses_maas boolean NOT NULL      -- a workflow of this mode asks MAAS for something
);

-- States of a machine in MAAS that contradict its node: drift takes a node in service out of it, and while such a state lasts a
-- node that drift quarantined stays quarantined.
CREATE TABLE farrier.contradictions (
    state    text   PRIMARY KEY,  -- as in node_observations
    statuses text[] NOT NULL,     -- of nodes in service that it contradicts
    causes   text[] NOT NULL      -- of quarantines that last while the machine is in this state
);

-- The actions that an intent may ask for.
CREATE TABLE farrier.actions (
    action       text    PRIMARY KEY,
    since        integer NOT NULL,  -- the version of the API in which it was added
    interrupts   boolean NOT NULL,  -- while such an intent is pending, a step that only reads is cut short
    while_paused boolean NOT NULL,  -- a pause of the node does not hold it back
    params       jsonb   NOT NULL   -- rules of the parameters; see params_fault
);

-- The recommended action for each failure.
CREATE TABLE farrier.advice (
    failure text PRIMARY KEY,  -- a failure class; quarantine:CAUSE or bmc:FAILURE
    action  text NOT NULL      -- for operators
);

-- One row: constants of the model that functions need. Written by migrations only.
CREATE TABLE farrier.constants (
    only_one              boolean  PRIMARY KEY DEFAULT true CHECK (only_one),
    api_min               integer  NOT NULL,  -- the oldest version of the intent API that is supported
    api_max               integer  NOT NULL,  -- the newest
    confirmed_after       interval NOT NULL,  -- two readings of a machine that are as far apart confirm what both show
    login_cap             integer  NOT NULL,  -- failed logins that one BMC may see within login_window
    login_window          interval NOT NULL,
    ssh_seed_limit        integer  NOT NULL,  -- failed SSH seeds in a row after which a node is unhealthy
    identity_placeholders text[]   NOT NULL   -- what vendors ship in place of serial numbers and UUIDs
);

-- One row: settings that functions need. The migration writes the defaults, each controller that starts its own.
CREATE TABLE farrier.settings (
    only_one       boolean  PRIMARY KEY DEFAULT true CHECK (only_one),
    offline_after  interval NOT NULL,  -- node.offline_after
    brake_share    numeric  NOT NULL,  -- node.brake_share
    brake_at_least integer  NOT NULL,  -- node.brake_at_least
    brake_window   interval NOT NULL   -- node.brake_window
);

-- What stops the clock of a limit: it does not run in this state while the fact has this value; see still_clocks.
CREATE TABLE farrier.clock_stops (
    kind  text NOT NULL,  -- node, management or onboarding
    state text NOT NULL,
    fact  text NOT NULL,  -- management, manage_asked, onboarding (status of the newest) or has_mode
    value text NOT NULL,
    PRIMARY KEY (kind, state, fact, value)
);

-- How long a node and its workflow may stay in a state: the limits in force. The migration writes the defaults,
-- each controller that starts those of its settings.
CREATE TABLE farrier.limits (
    kind     text     NOT NULL,  -- node, management, onboarding or decommission
    state    text     NOT NULL,  -- end_to_end for the clock of a whole workflow
    substate text     NOT NULL,  -- stage of a running workflow; else empty
    scope    text     NOT NULL CHECK (scope IN ('', 'model', 'site')),  -- site before model before '', which is all nodes
    name     text     NOT NULL,  -- of the site or model; else empty
    lasts    interval NOT NULL,
    PRIMARY KEY (kind, state, substate, scope, name)
);
