-- Pools of numbers that resources take: VLANs, VNIs, keys of partitions.

-- Pools of numbers that resources take: VLANs, keys of partitions. However many are taken, the lowest free one is found at
-- once: it is the lowest that was given back, or the first that nobody has at or above the mark `next`, below which every
-- number of the pool is taken or was given back.
CREATE TABLE farrier.number_pools (
    pool  text    PRIMARY KEY,
    first integer NOT NULL,
    last  integer NOT NULL,
    next  bigint  NOT NULL,
    CHECK (first <= last AND first <= next)
);

CREATE TABLE farrier.pool_numbers (
    pool   text    NOT NULL REFERENCES farrier.number_pools,
    number integer NOT NULL,
    kind   text    NOT NULL,
    id     bigint  NOT NULL,
    PRIMARY KEY (pool, number)
);
CREATE INDEX pool_numbers_holder ON farrier.pool_numbers (kind, id);

-- No reference to the pool: whoever gives back waits for no taker.
CREATE TABLE farrier.freed_numbers (
    pool   text    NOT NULL,
    number integer NOT NULL,
    PRIMARY KEY (pool, number)
);
