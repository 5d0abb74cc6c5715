-- Returns the shards that the controller owns under these epochs, and locks them until the transaction ends: a
-- controller that takes orphaned shards skips locked ones, so it loads their resources only after this transaction has
-- ended. Without the lock, another controller could take a shard and load before an open transaction commits.
CREATE OR REPLACE FUNCTION farrier.hold_shards(of_kind text, controller uuid, of_shards smallint[], epochs bigint[]) RETURNS smallint[]
    LANGUAGE plpgsql AS $$
BEGIN
    RETURN ARRAY(
        SELECT s.shard FROM farrier.shards s JOIN unnest(of_shards, epochs) o (shard, epoch) ON o.shard = s.shard
         WHERE s.kind = of_kind AND s.owner = controller AND s.epoch = o.epoch
         ORDER BY s.shard FOR SHARE OF s);
END $$;
