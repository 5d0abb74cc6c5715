"""InfiniBand partitions: their states and actions, and the keys of a UFM."""
