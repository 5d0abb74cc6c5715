-- Questions how a handler would answer an intent.

-- Questions of clients, which the controllers answer. A client calls farrier.foresee(). A question is deleted after a minute. The
-- table is not logged, because the questions need not outlive a crash.
CREATE UNLOGGED TABLE farrier.questions (
    id          bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    asked       uuid        NOT NULL,  -- the call that asked
    place       integer     NOT NULL,  -- the position of the question in the call
    kind        text        NOT NULL,
    resource_id bigint      NOT NULL,
    action      text        NOT NULL,
    params      jsonb       NOT NULL,
    at          timestamptz NOT NULL DEFAULT farrier.now(),
    verdict     text        CHECK (verdict IN ('accepted', 'rejected', 'depends')),  -- null: not answered yet
    reason      text
);
CREATE INDEX questions_asked ON farrier.questions (asked);
CREATE INDEX questions_open ON farrier.questions (kind, id) WHERE verdict IS NULL;
