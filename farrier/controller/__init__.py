"""The generic loop: own shards, load, handle, commit, drain. Knows protocols and model, and no kind of resource."""
