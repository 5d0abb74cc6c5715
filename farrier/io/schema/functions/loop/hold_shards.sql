-- Returns the shards that the controller owns under these epochs, and locks them until the transaction ends: a
-- controller that takes orphaned shards skips locked ones, so it loads their resources only after this transaction has
-- ended. Without the lock, another controller could take a shard and load before an open transaction commits. Returns
-- no shards in a database that was restored from a backup and that no controller has recognised yet.
CREATE OR REPLACE FUNCTION farrier.hold_shards(of_kind text, controller uuid, of_shards smallint[], epochs bigint[]) RETURNS smallint[]
    LANGUAGE plpgsql AS $$
BEGIN
    RETURN ARRAY(
        SELECT s.shard FROM farrier.shards s JOIN unnest(of_shards, epochs) o (shard, epoch) ON o.shard = s.shard
         WHERE s.kind = of_kind AND s.owner = controller AND s.epoch = o.epoch AND NOT (SELECT farrier.is_restored())
         ORDER BY s.shard FOR SHARE OF s);
END $$;
