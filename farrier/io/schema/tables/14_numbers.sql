-- Pools of numbers that resources take: VLANs, VNIs and keys of partitions.

-- Pools of numbers that resources take. The lowest free number is found at once, even if many are taken: it is the lowest in
-- freed_numbers, or the first number at or above `next` that is not taken.
CREATE TABLE farrier.number_pools (
    pool  text    PRIMARY KEY,  -- farrier uses `vlan:SITE`, `vni`, `pkey:SITE` and `pkey`
    first integer NOT NULL,     -- lowest number
    last  integer NOT NULL,     -- highest number
    next  bigint  NOT NULL,     -- all lower numbers of the pool are taken or freed
    CHECK (first <= last AND first <= next)
);

-- Taken numbers, each with the resource that has it.
CREATE TABLE farrier.pool_numbers (
    pool   text    NOT NULL REFERENCES farrier.number_pools,
    number integer NOT NULL,
    kind   text    NOT NULL,  -- kind of the resource that has the number
    id     bigint  NOT NULL,  -- id of that resource
    PRIMARY KEY (pool, number)
);
CREATE INDEX pool_numbers_holder ON farrier.pool_numbers (kind, id);

-- Released numbers. There is no foreign key to the pool, because a release must not wait for a transaction that takes a
-- number.
CREATE TABLE farrier.freed_numbers (
    pool   text    NOT NULL,
    number integer NOT NULL,
    PRIMARY KEY (pool, number)
);
