-- Pools of numbers that resources take: VLANs, VNIs and keys of partitions.

-- Pools of numbers that resources take. The lowest free number is found at once, however many are taken: it is the lowest in
-- freed_numbers, or the first at or above `next` that is not taken.
CREATE TABLE farrier.number_pools (
    pool  text    PRIMARY KEY,  -- `vlan:SITE`, `vni`, `pkey:SITE` and `pkey` are those that farrier uses
    first integer NOT NULL,     -- lowest number
    last  integer NOT NULL,     -- highest number
    next  bigint  NOT NULL,     -- every number of the pool below it is taken or freed
    CHECK (first <= last AND first <= next)
);

-- Numbers that are taken, and by which resource.
CREATE TABLE farrier.pool_numbers (
    pool   text    NOT NULL REFERENCES farrier.number_pools,
    number integer NOT NULL,
    kind   text    NOT NULL,  -- kind of the resource that has the number
    id     bigint  NOT NULL,  -- id of that resource
    PRIMARY KEY (pool, number)
);
CREATE INDEX pool_numbers_holder ON farrier.pool_numbers (kind, id);

-- Released numbers. No foreign key to the pool: a release does not wait for a transaction that takes a number.
CREATE TABLE farrier.freed_numbers (
    pool   text    NOT NULL,
    number integer NOT NULL,
    PRIMARY KEY (pool, number)
);
