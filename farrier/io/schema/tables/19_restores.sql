-- Restores: how farrier recognises a database that was restored from a backup, and the resources that it then holds.

-- One row: the place where farrier put this database into service. A dump carries the row, but not the place, so in a restored
-- database the row does not match the server, the database or the table. farrier.is_restored compares them.
CREATE TABLE farrier.installation (
    one               boolean PRIMARY KEY DEFAULT true CHECK (one),
    system_identifier bigint      NOT NULL,  -- of the server's data directory; initdb, and so pg_upgrade, makes a new one
    database          oid         NOT NULL,
    relation          oid         NOT NULL,  -- of this table; differs after a restore into the same database
    restored_at       timestamptz            -- when farrier last noticed a restore or was told of one; null: never
);
INSERT INTO farrier.installation (system_identifier, database, relation)
SELECT c.system_identifier, d.oid, 'farrier.installation'::regclass
  FROM pg_control_system() c, pg_database d WHERE d.datname = current_database();

-- The resources that existed when the database was restored. farrier reads the systems outside for a held resource, and changes
-- nothing, until an operator lifts the hold.
CREATE TABLE farrier.restore_holds (
    kind      text        NOT NULL,
    id        bigint      NOT NULL,
    since     timestamptz NOT NULL,                   -- when farrier noticed the restore
    power     text,                                   -- the power that the backup has for a manageable node
    choice    text        CHECK (choice IN ('resume', 'adopt', 'end')),  -- how the operator wants the hold to be lifted
    reason    text,                                   -- text of the operator
    lifted_by text,                                   -- name that the operator gave, else session_user
    lifted_at timestamptz,                            -- null while the resource is held
    PRIMARY KEY (kind, id)
);
CREATE INDEX restore_holds_standing ON farrier.restore_holds (kind, id) WHERE lifted_at IS NULL;
