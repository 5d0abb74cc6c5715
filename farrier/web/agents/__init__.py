"""The API of the agents, under /agent/v1: an application of its own, which serves nothing else."""
