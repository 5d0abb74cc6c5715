"""InfiniBand partitions in the model: the keys of a UFM go in; states, actions and members come out."""
