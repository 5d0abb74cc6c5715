"""InfiniBand partitions: takes a partition and its members, and returns the changes that bring UFM to this state.

`PartitionHandler.handle` makes all decisions that do not need UFM. Module `steps` reads UFM and makes the changes of a
`plan`.
"""
