-- Makes the shards of a kind.
SELECT farrier.make_shards($1)
